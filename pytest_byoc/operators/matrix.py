"""Matrix products."""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from .record import (
    DATA,
    LEAD,
    NUMBERS,
    OUT_DTYPE,
    WEIGHT,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    broadcast,
    out_dtype,
)

_ACCURACY = "dot product of K: gamma(K), Higham, ASNA 2nd ed., (3.5)"
_FLAG = {"no": (False,), "yes": (True,)}


def _swap(shape: Sequence[int], flag: bool) -> tuple[int, ...]:
    """Returns the shape, with its last two dimensions exchanged if `flag`."""
    s = tuple(shape)
    return s[:-2] + (s[-1], s[-2]) if flag else s


def _swap_relax(ns: Any, x: Any, rank: int, flag: bool) -> Any:
    return ns.permute_dims(x, list(range(rank - 2)) + [rank - 1, rank - 2]) if flag else x


def _same_dtype(types: Sequence[TensorType], op: str) -> None:
    if types[0].dtype != types[1].dtype:
        raise TypeRuleError(
            "%s needs operands of one dtype, found %s and %s" % (op, types[0].dtype, types[1].dtype)
        )


# --- nn.dense --------------------------------------------------------------------------------


def _dense_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    weight = TensorType((chosen["units"], x.shape[-1]), x.dtype)
    return Operand(LEAD, x), Operand(WEIGHT, weight)


def _dense_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, w = types
    _same_dtype(types, "nn.dense")
    if x.rank != 2 or w.rank != 2 or x.shape[1] != w.shape[1] or w.shape[0] != attrs["units"]:
        raise TypeRuleError("%s and %s have no product with %d units" % (x, w, attrs["units"]))
    return (TensorType((x.shape[0], w.shape[0]), attrs.get("out_dtype", x.dtype)),)


def _dense_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.nn.dense(args[0], args[1], units=attrs.get("units"), **out_dtype(attrs, types))


def _dense_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.matmul(args[0], ns.permute_dims(args[1], [1, 0]), **out_dtype(attrs, types))


# --- nn.matmul and nn.batch_matmul -----------------------------------------------------------


def _other(x: TensorType, chosen: Attrs, batch: tuple[int, ...]) -> TensorType:
    """Returns the second operand's type: `columns` columns, as long as the first operand's rows."""
    inner = _swap(x.shape, chosen["transpose_a"])[-1]
    shape = _swap((inner, chosen["columns"]), chosen["transpose_b"])
    return TensorType(batch + shape, x.dtype)


def _matmul_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return Operand(LEAD, x), Operand(WEIGHT, _other(x, chosen, ()))


def _batch_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return Operand(LEAD, x), Operand(DATA, _other(x, chosen, (chosen["batch"],)))


def _batch(x: TensorType, chosen: Attrs) -> Classes:
    n = x.shape[0]
    return {"same": (n,), "broadcast": (1,) if n > 1 else (3,)}


def _matmul_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    a, b = types
    _same_dtype(types, "a matrix product")
    if a.rank < 2 or a.rank != b.rank:
        raise TypeRuleError("%s and %s have no matrix product: equal ranks of 2 or more are needed" % (a, b))
    p, q = _swap(a.shape, attrs["transpose_a"]), _swap(b.shape, attrs["transpose_b"])
    if p[-1] != q[-2]:
        raise TypeRuleError("%s and %s, transposed as the attributes say, have no matrix product" % (a, b))
    shape = broadcast(p[:-2], q[:-2]) + (p[-2], q[-1])
    return (TensorType(shape, attrs.get("out_dtype", a.dtype)),)


def _transposes(attrs: Attrs) -> dict[str, bool]:
    return {k: attrs[k] for k in ("transpose_a", "transpose_b")}


def _matmul_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.nn.matmul(args[0], args[1], **_transposes(attrs), **out_dtype(attrs, types))


def _batch_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.nn.batch_matmul(args[0], args[1], **_transposes(attrs), **out_dtype(attrs, types))


def _matmul_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    a = _swap_relax(ns, args[0], types[0].rank, attrs["transpose_a"])
    b = _swap_relax(ns, args[1], types[1].rank, attrs["transpose_b"])
    return ns.matmul(a, b, **out_dtype(attrs, types))


_COLUMNS = Parameter("columns", {"plain": (6, 3, 17), "one": (1,)}, attribute=False)
_MATRICES = ((3, 8), (1, 5), (4, 1), (2, 67), (17, 6))

OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="nn.dense",
        contraction=True,
        followed_by=("nn.bias_add", "add", "nn.relu"),
        infer=_dense_infer,
        shapes=_MATRICES,
        accuracy=_ACCURACY,
        accepts=lambda x: x.rank == 2 and x.size > 0,
        operands=_dense_operands,
        dtypes=NUMBERS,
        parameters=(Parameter("units", {"plain": (6, 3, 17), "one": (1,)}), OUT_DTYPE),
        relay=Lowering("nn.dense", _dense_relay, optional=("units",)),
        relax=Lowering("matmul", _dense_relax),
    ),
    Operator(
        name="nn.matmul",
        matrices=True,
        contraction=True,
        followed_by=("add", "nn.relu"),
        infer=_matmul_infer,
        shapes=_MATRICES,
        accuracy=_ACCURACY,
        accepts=lambda x: x.rank == 2 and x.size > 0,
        operands=_matmul_operands,
        dtypes=NUMBERS,
        parameters=(
            Parameter("transpose_a", _FLAG),
            Parameter("transpose_b", _FLAG),
            _COLUMNS,
            OUT_DTYPE,
        ),
        relay=Lowering("nn.matmul", _matmul_relay),
        relax=Lowering("matmul", _matmul_relax),
    ),
    Operator(
        name="nn.batch_matmul",
        matrices=True,
        contraction=True,
        followed_by=("nn.softmax", "multiply"),
        infer=_matmul_infer,
        shapes=((2, 3, 8), (1, 4, 5), (3, 1, 7), (2, 5, 1), (4, 2, 33)),
        accuracy=_ACCURACY,
        accepts=lambda x: x.rank == 3 and x.size > 0,
        operands=_batch_operands,
        dtypes=NUMBERS,
        parameters=(
            Parameter("transpose_a", _FLAG),
            # True comes first, as it is Relay's default.
            Parameter("transpose_b", {"yes": (True,), "no": (False,)}),
            Parameter("batch", _batch, attribute=False),
            _COLUMNS,
            OUT_DTYPE,
        ),
        relay=Lowering("nn.batch_matmul", _batch_relay),
        relax=Lowering("matmul", _matmul_relax),
    ),
)
