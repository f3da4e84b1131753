"""Indexing: picking elements by index, and computing values from indices."""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from .index_operands import (
    INDEX_DTYPE,
    SHAPES,
    axis_classes,
    index_depth,
    integral,
    nd_index,
    nd_parts,
    permuted,
)
from .record import (
    ANY,
    CONSTANT,
    FLOATS,
    FRESH,
    INTEGERS,
    LEAD,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    broadcast,
    call,
    normalize_axis,
    some,
)

# --- take ------------------------------------------------------------------------------------


def _take_axis(x: TensorType, chosen: Attrs) -> Classes:
    return {**axis_classes(x, chosen), "flat": (None,)}


def _take_mode(x: TensorType, chosen: Attrs) -> Classes:
    # Relax's "nan" over the flattened tensor would index by a float.
    nan = x.dtype in FLOATS and chosen["axis"] is not None
    return {"clip": ("clip",), "wrap": ("wrap",), "fast": ("fast",), "nan": ("nan",) if nan else ()}


def _reach(x: TensorType, chosen: Attrs) -> Classes:
    return {"inside": (False,), "outside": (True,) if chosen["mode"] != "fast" else ()}


def _take_batch(x: TensorType, chosen: Attrs) -> Classes:
    axis = chosen["axis"]
    axis = 0 if axis is None else normalize_axis(axis, x.rank)
    # TVM 0.16 builds batch dimensions only with mode "clip".
    return {"none": (0,), "some": tuple(range(1, axis + 1)) if chosen["mode"] == "clip" else ()}


def _take_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    n = x.size if chosen["axis"] is None else x.shape[chosen["axis"]]
    shape = x.shape[: chosen["batch_dims"]] + tuple(chosen["index_shape"])
    low, high = (-n - 2, 2 * n + 1) if chosen["beyond"] else (0, n - 1)
    return (Operand(LEAD, x), Operand(FRESH, TensorType(shape, chosen["index_dtype"]), low, high))


def _take_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, index = types
    integral(index)
    if attrs["axis"] is None:
        return (TensorType(index.shape, x.dtype),)
    axis, b = normalize_axis(attrs["axis"], x.rank), attrs["batch_dims"]
    if b > axis or x.shape[:b] != index.shape[:b]:
        raise TypeRuleError(
            "%s and %s do not agree in %d batch dimensions before axis %d" % (x, index, b, axis)
        )
    return (TensorType(x.shape[:axis] + index.shape[b:] + x.shape[axis + 1 :], x.dtype),)


def _take_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.take(*args, axis=attrs["axis"], batch_dims=attrs["batch_dims"], mode=attrs["mode"])


def _take_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    x, index = args
    if attrs["axis"] is None and types[0].rank != 1:
        x = ns.reshape(x, (types[0].size,))
    return ns.take(x, index, axis=attrs["axis"], mode=attrs["mode"])


# --- gather, gather_nd, adv_index ------------------------------------------------------------


def _length(x: TensorType, chosen: Attrs) -> Classes:
    n = x.shape[chosen["axis"]]
    return {"same": (n,), "shorter": (n - 1,) if n > 1 else (), "longer": (n + 3,), "one": (1,)}


def _gather_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    shape, axis = list(x.shape), chosen["axis"]
    n, shape[axis] = shape[axis], chosen["length"]
    index = TensorType(tuple(shape), chosen["index_dtype"])
    return (Operand(LEAD, x), Operand(FRESH, index, 0, n - 1))


def _gather_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, index = types
    integral(index)
    axis = normalize_axis(attrs["axis"], x.rank)
    same = [p == q for i, (p, q) in enumerate(zip(x.shape, index.shape)) if i != axis]
    if index.rank != x.rank or not all(same):
        raise TypeRuleError("%s and the indices %s do not agree in all axes but axis %d" % (x, index, axis))
    return (TensorType(index.shape, x.dtype),)


def _gather_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.gather(args[0], attrs["axis"], args[1])


def _gather_nd_batch(x: TensorType, chosen: Attrs) -> Classes:
    return {"none": (0,), "some": tuple(range(1, x.rank))}


def _index_rank(x: TensorType, chosen: Attrs) -> Classes:
    return {"unset": (None,), "given": (chosen["depth"],)}


def _gather_nd_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    b = chosen["batch_dims"]
    dims = x.shape[b : b + chosen["depth"]]
    shape = x.shape[:b] + tuple(chosen["index_shape"])
    count = TensorType(shape, "int64").size
    flat = permuted(count, TensorType(dims, "int64").size)
    return (Operand(LEAD, x), nd_index(shape, dims, flat, chosen["index_dtype"], chosen["index_last"]))


def _gather_nd_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, b = types[0], attrs["batch_dims"]
    m, shape = nd_parts(types[1], attrs["index_last"])
    if m < 1 or m + b > x.rank or x.shape[:b] != shape[:b]:
        raise TypeRuleError("the indices %s do not fit %s after %d batch dimensions" % (types[1], x, b))
    return (TensorType(shape + x.shape[b + m :], x.dtype),)


def _gather_nd_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.gather_nd(*args, batch_dims=attrs["batch_dims"], index_rank=attrs["index_rank"])


def _gather_nd_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.gather_nd(*args, batch_dims=attrs["batch_dims"])


def _adv_shapes(x: TensorType, chosen: Attrs) -> Classes:
    """Returns shapes of the index tensors: one tensor for each indexed leading dimension."""
    r = x.rank
    return {
        "one": (((4,),),),
        "matrix": (((2, 3),),),
        "two": (((4,), (4,)),) if r > 1 else (),
        "broadcast": (((3, 1), (1, 4)), ((2, 3), (3,))) if r > 1 else (),
        "all": (((5,),) * r,) if r > 2 else (),
    }


def _adv_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    indices = tuple(
        Operand(FRESH, TensorType(tuple(s), chosen["index_dtype"]), 0, d - 1)
        for s, d in zip(chosen["index_shapes"], x.shape)
    )
    return (Operand(LEAD, x),) + indices


def _adv_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, indices = types[0], types[1:]
    integral(*indices)
    shape: tuple[int, ...] = ()
    for t in indices:
        shape = broadcast(shape, t.shape)
    if len(indices) > x.rank:
        raise TypeRuleError("%d indices are too many for %s" % (len(indices), x))
    return (TensorType(shape + x.shape[len(indices) :], x.dtype),)


def _adv_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.adv_index(args)


def _adv_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.index_tensor(args[0], args[1:])


# --- one_hot, unravel_index ------------------------------------------------------------------


def _hot_axis(x: TensorType, chosen: Attrs) -> Classes:
    # TVM's implementation supports no negative axis but -1.
    return {"last": (-1,), "first": (0,), "inner": tuple(range(1, x.rank)), "end": (x.rank,)}


def _hot_on(x: TensorType, chosen: Attrs) -> Classes:
    if chosen["dtype"] == "bool":
        return {"one": (True,), "other": (False,)}
    return {"one": (1,), "other": (0.5, 2.75) if chosen["dtype"] in FLOATS else (3,)}


def _hot_off(x: TensorType, chosen: Attrs) -> Classes:
    if chosen["dtype"] == "bool":
        return {"zero": (not chosen["on_value"],), "other": ()}
    return {"zero": (0,), "other": (-1.25,) if chosen["dtype"] in FLOATS else (7,)}


def _hot_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,) = types
    integral(x)
    axis = normalize_axis(attrs["axis"], x.rank + 1)
    return (TensorType(x.shape[:axis] + (attrs["depth"],) + x.shape[axis:], attrs["dtype"]),)


def _hot_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    on, off = (ns.const(attrs[name], attrs["dtype"]) for name in ("on_value", "off_value"))
    return ns.one_hot(args[0], on, off, attrs["depth"], attrs["axis"], attrs["dtype"])


def _hot_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    kind = {"float64": float, "int64": int, "bool": bool}[attrs["dtype"]]
    on, off = kind(attrs["on_value"]), kind(attrs["off_value"])
    return ns.one_hot(args[0], on, off, attrs["depth"], attrs["axis"])


def _unravel_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    dims = chosen["dims"]
    return (Operand(LEAD, x), Operand(CONSTANT, TensorType((len(dims),), x.dtype), data=list(dims)))


def _unravel_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, dims = types
    integral(x, dims)
    if x.rank != 1 or dims.rank != 1 or dims.size > 7:
        raise TypeRuleError("%s is not the type of a shape" % dims)
    return (TensorType((dims.size,) + x.shape, x.dtype),)


OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="take",
        infer=_take_infer,
        shapes=SHAPES,
        accuracy="exact",
        accepts=some,
        operands=_take_operands,
        parameters=(
            Parameter("axis", _take_axis),
            Parameter(
                "index_shape",
                {"vector": ((4,),), "scalar": ((),), "matrix": ((2, 3),), "one": ((1,),)},
                attribute=False,
            ),
            INDEX_DTYPE,
            Parameter("mode", _take_mode),
            Parameter("beyond", _reach, attribute=False),
            Parameter("batch_dims", _take_batch),
        ),
        dtypes=ANY,
        relay=Lowering("take", _take_relay, {"mode": ("clip", "wrap", "fast")}),
        relax=Lowering("take", _take_relax, {"batch_dims": (0,)}),
    ),
    Operator(
        name="gather",
        infer=_gather_infer,
        shapes=SHAPES,
        accuracy="exact",
        accepts=some,
        operands=_gather_operands,
        parameters=(
            Parameter("axis", axis_classes),
            Parameter("length", _length, attribute=False),
            INDEX_DTYPE,
        ),
        dtypes=ANY,
        relay=Lowering("gather", _gather_relay),
        relax=call("gather_elements"),
    ),
    Operator(
        name="gather_nd",
        infer=_gather_nd_infer,
        shapes=SHAPES,
        accuracy="exact",
        accepts=some,
        operands=_gather_nd_operands,
        parameters=(
            Parameter("batch_dims", _gather_nd_batch),
            Parameter("depth", index_depth, attribute=False),
            Parameter(
                "index_shape", {"vector": ((4,),), "matrix": ((2, 3),), "none": ((),)}, attribute=False
            ),
            INDEX_DTYPE,
            Parameter("index_rank", _index_rank),
            # Coordinates are along the indices' first dimension in Relay, along their last in Relax.
            Parameter("index_last", {"no": (False,), "yes": (True,)}),
        ),
        dtypes=ANY,
        relay=Lowering("gather_nd", _gather_nd_relay, {"index_last": (False,)}),
        relax=Lowering(
            "gather_nd",
            _gather_nd_relax,
            {"index_last": (True,), "index_rank": (None,), "index_dtype": ("int64",)},
        ),
    ),
    Operator(
        name="adv_index",
        infer=_adv_infer,
        shapes=SHAPES,
        accuracy="exact",
        accepts=some,
        operands=_adv_operands,
        parameters=(Parameter("index_shapes", _adv_shapes, attribute=False), INDEX_DTYPE),
        dtypes=ANY,
        relay=Lowering("adv_index", _adv_relay),
        relax=Lowering("index_tensor", _adv_relax),
    ),
    Operator(
        name="one_hot",
        infer=_hot_infer,
        shapes=((3, 5), (), (1,), (7,), (2, 3, 4)),
        accuracy="exact",
        parameters=(
            Parameter("depth", {"small": (5, 3), "one": (1,), "large": (67,)}),
            Parameter("axis", _hot_axis),
            Parameter("dtype", {d: (d,) for d in FLOATS[:2] + ("int32", "int64", "int8", "bool")}),
            Parameter("on_value", _hot_on),
            Parameter("off_value", _hot_off),
        ),
        dtypes=INTEGERS,
        relay=Lowering("one_hot", _hot_relay),
        # Relax's result has the dtype of the Python numbers on and off.
        relax=Lowering("one_hot", _hot_relax, {"dtype": ("float64", "int64", "bool")}),
    ),
    Operator(
        name="unravel_index",
        infer=_unravel_infer,
        shapes=((7,), (1,), (67,)),
        accuracy="exact",
        # TVM 0.16 builds vectors only.
        accepts=lambda x: x.rank == 1 and x.size > 0,
        operands=_unravel_operands,
        parameters=(
            Parameter(
                "dims", {"matrix": ((7, 11),), "flat": ((60,),), "many": ((3, 4, 5),)}, attribute=False
            ),
        ),
        dtypes=("int32", "int64"),
        domain=(0, 59),
        relay=call("unravel_index"),
    ),
)
