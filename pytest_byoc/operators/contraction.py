"""General products: einsum, Relax's matmul and outer.

Relax's ewise_fma is left out: TVM has no implementation of its own (nothing legalizes it).
"""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from .record import (
    DATA,
    LEAD,
    NUMBERS,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    broadcast,
    call,
)

_ACCURACY = "dot product of K: gamma(K), Higham, ASNA 2nd ed., (3.5)"

# --- einsum ----------------------------------------------------------------------------------

_ELLIPSIS = "..."
#: Extents of the labels that the first operand does not have.
_SIZES = {"k": 5, "l": 2, "m": 4, "t": 6}


def _parsed(equation: str) -> tuple[list[str], str | None]:
    """Returns the labels of each operand, and those of the result or None if it has no arrow."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    return left.split(","), right if arrow else None


def _implied(operands: Sequence[str]) -> str:
    """Returns the labels of a result that the equation leaves out.

    These are the ellipsis, if there is one, and the labels that occur once, in alphabetical order.
    """
    joined = "".join(operands)
    letters = sorted(c for c in set(joined) - {"."} if joined.count(c) == 1)
    return (_ELLIPSIS if "." in joined else "") + "".join(letters)


def _bound(labels: str, shape: tuple[int, ...], sizes: dict[str, tuple[int, ...]]) -> None:
    """Adds the extents of an operand's labels to `sizes`; raises TypeRuleError if one differs."""
    names = list(labels.replace(_ELLIPSIS, "."))
    free = len(shape) - (len(names) - names.count("."))
    if free < 0 or (free > 0 and "." not in names):
        raise TypeRuleError("the labels %r do not fit the shape %s" % (labels, shape))
    at = 0
    for c in names:
        dims = shape[at : at + (free if c == "." else 1)]
        at += len(dims)
        if sizes.setdefault(c, dims) != dims:
            raise TypeRuleError("the label %r stands for both %s and %s" % (c, sizes[c], dims))


def _einsum_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    labels, _ = _parsed(chosen["equation"])
    sizes: dict[str, tuple[int, ...]] = {c: (n,) for c, n in _SIZES.items()}
    for c in labels[0]:
        sizes.pop(c, None)
    _bound(labels[0], x.shape, sizes)
    operands = [Operand(LEAD, x)]
    for others in labels[1:]:
        shape = tuple(d for c in others.replace(_ELLIPSIS, ".") for d in sizes[c])
        operands.append(Operand(DATA, TensorType(shape, x.dtype)))
    return tuple(operands)


def _einsum_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    operands, result = _parsed(attrs["equation"])
    if len(operands) != len(types) or any(t.dtype != types[0].dtype for t in types):
        raise TypeRuleError(
            "the equation %r does not fit the operands %s, which must have one dtype"
            % (attrs["equation"], ", ".join(map(str, types)))
        )
    sizes: dict[str, tuple[int, ...]] = {}
    for labels, t in zip(operands, types):
        _bound(labels, t.shape, sizes)
    result = _implied(operands) if result is None else result
    shape = tuple(d for c in result.replace(_ELLIPSIS, ".") for d in sizes[c])
    return (TensorType(shape, types[0].dtype),)


def _equations(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    square = r == 2 and x.shape[0] == x.shape[1]
    return {
        "product": {
            1: ("i,i->",),
            2: ("ij,jk->ik",),
            3: ("bij,bjk->bik",),
            4: ("bshd,bthd->bhst",),
        }[r],
        "transposed": {2: ("ij,kj->ki",), 3: ("ijk,ljm->kiml",)}.get(r, ()),
        "implicit": {2: ("ij,jk", "ji,jk"), 1: ("i,i",)}.get(r, ()),
        "outer": {1: ("i,k->ik",), 2: ("ij,kl->iklj",)}.get(r, ()),
        "elementwise": {1: ("i,i->i",), 2: ("ij,ij->ji", "ij,j->ij")}.get(r, ()),
        "scalar": {1: ("i,->i",), 2: ("ij,->j",)}.get(r, ()),
        "vector": {2: ("ij,j->i",), 3: ("ijk,i->jk",)}.get(r, ()),
        "full": {2: ("ij,ij->",), 3: ("ijk,kji->",)}.get(r, ()),
        "alone": {1: ("i->",), 2: ("ij->ji", "ij->j"), 3: ("ijk->ki",)}.get(r, ()),
        "diagonal": ("ii->i", "ii") if square else (),
        "three": {2: ("ij,jk,kl->il",)}.get(r, ()),
        "ellipsis": {3: ("...ij,jk->...ik",), 4: ("...ij,...jk->...ik",)}.get(r, ()),
        "spaces": {2: ("ij, jk -> ik",)}.get(r, ()),
    }


def _einsum_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.einsum(args, attrs["equation"])


# --- matmul ----------------------------------------------------------------------------------


def _right(x: TensorType, chosen: Attrs) -> Classes:
    """Returns shapes of the second operand: a matrix, a vector, or a stack of matrices."""
    k, batch = x.shape[-1], x.shape[:-2]
    return {
        "matrix": ((k, 5), (k, 1)),
        "vector": ((k,),),
        "stack": (batch + (k, 3),) if batch else (),
        "stack_of_stacks": (batch + (k, 2),) if sum(d > 1 for d in batch) > 1 else (),
        "stack_of_one": ((1,) * len(batch) + (k, 3),) if batch else (),
        "more_dims": ((2,) + (1,) * len(batch) + (k, 4),) if x.rank < 4 else (),
        # One of several batch dimensions is broadcast, in one of the operands.
        "stack_inner_one": (batch[:-1] + (1, k, 3),) if len(batch) > 1 and batch[-1] > 1 else (),
        "stack_outer_one": ((1,) + batch[1:] + (k, 3),) if len(batch) > 1 and batch[0] > 1 else (),
        "stack_widened": (tuple(3 if d == 1 else d for d in batch) + (k, 3),) if 1 in batch else (),
    }


def _matmul_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return Operand(LEAD, x), Operand(DATA, TensorType(chosen["right"], x.dtype))


def _matmul_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    a, b = types
    if a.dtype != b.dtype or not a.rank or not b.rank or a.shape[-1] != b.shape[-2:][0]:
        raise TypeRuleError("%s and %s have no matrix product" % (a, b))
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.rank > 1 else ()
    return (TensorType(broadcast(a.shape[:-2], b.shape[:-2]) + rows + columns, a.dtype),)


# --- outer -----------------------------------------------------------------------------------


def _outer_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return Operand(LEAD, x), Operand(DATA, TensorType((chosen["columns"],), x.dtype))


def _outer_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    a, b = types
    if a.dtype != b.dtype or a.rank != 1 or b.rank != 1:
        raise TypeRuleError("%s and %s have no outer product: two vectors of one dtype are needed" % (a, b))
    return (TensorType(a.shape + b.shape, a.dtype),)


OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="einsum",
        infer=_einsum_infer,
        shapes=((3, 4), (7,), (2, 3, 5), (4, 4), (1, 6), (2, 3, 2, 4)),
        accuracy=_ACCURACY,
        accepts=lambda x: 0 < x.rank < 5 and x.size > 0,
        operands=_einsum_operands,
        dtypes=NUMBERS,
        parameters=(Parameter("equation", _equations),),
        relay=Lowering("einsum", _einsum_relay),
        relax=Lowering("einsum", _einsum_relay),
    ),
    # Relay only has nn.matmul, for two matrices.
    Operator(
        name="matmul",
        matrices=True,
        contraction=True,
        infer=_matmul_infer,
        shapes=((3, 8), (7,), (2, 4, 5), (1, 67), (3, 2, 1, 6), (2, 1, 3, 5)),
        accuracy=_ACCURACY,
        accepts=lambda x: 0 < x.rank < 5 and x.size > 0,
        operands=_matmul_operands,
        dtypes=NUMBERS,
        parameters=(Parameter("right", _right, attribute=False),),
        relax=call("matmul"),
    ),
    Operator(
        name="outer",
        infer=_outer_infer,
        shapes=((5,), (1,), (67,)),
        accuracy="IEEE 754: correctly rounded, 1/2 ulp",
        accepts=lambda x: x.rank == 1 and x.size > 0,
        operands=_outer_operands,
        dtypes=NUMBERS,
        parameters=(Parameter("columns", {"plain": (7, 4), "one": (1,)}, attribute=False),),
        relax=call("outer"),
    ),
)
