"""Scattering: placing elements by index or slice, masking and reversing sequences."""

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
    DATA,
    FLOATS,
    FRESH,
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
    normalize_axis,
    same_type,
    some,
)
from .shape import slice_begin, slice_end, slice_infer, slice_strides

_REDUCED = "exact; sums and products of n: gamma(n), Higham, ASNA 2nd ed., section 4.2 and lemma 3.1"


def _fitting(x: TensorType, updates: TensorType, shape: tuple[int, ...]) -> None:
    if updates != TensorType(shape, x.dtype):
        raise TypeRuleError("the updates are %s, expected %s" % (updates, TensorType(shape, x.dtype)))


def _size(shape: Sequence[int]) -> int:
    return TensorType(tuple(shape), "int64").size


# --- scatter_elements, scatter_nd, index_put -------------------------------------------------


def _reductions(x: TensorType, chosen: Attrs) -> Classes:
    names = ("update", "add", "mul", "min", "max")
    return {name: (name,) for name in names}


def _element_reductions(x: TensorType, chosen: Attrs) -> Classes:
    # TVM does not build the mean of integers.
    return {**_reductions(x, chosen), "mean": ("mean",) if x.dtype in FLOATS else ()}


def _repeated(x: TensorType, chosen: Attrs) -> Classes:
    """Returns whether several updates may have the same position.

    Not for "update" and "mean", since TVM does not specify the order of the updates.
    """
    mode = chosen.get("reduction", chosen.get("mode"))
    return {"no": (False,), "yes": (True,) if mode not in ("update", "mean") else ()}


def _update_count(x: TensorType, chosen: Attrs) -> Classes:
    n = x.shape[chosen["axis"]]
    return {"same": (n,), "shorter": (n - 1,) if n > 1 else (), "one": (1,)}


def _elements_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    axis = normalize_axis(chosen["axis"], x.rank)
    n, length = x.shape[axis], chosen["length"]
    shape = x.shape[:axis] + (length,) + x.shape[axis + 1 :]
    inner = _size(shape[axis + 1 :])
    order = permuted(length, n)
    positions = []
    for i in range(_size(shape)):
        line = i // (inner * length) + i % inner
        at = (order[i // inner % length] + line) % n
        positions.append(at // 2 if chosen["repeated"] else at)
    index = Operand(FRESH, TensorType(shape, chosen["index_dtype"]), data=positions)
    return (Operand(LEAD, x), index, Operand(DATA, TensorType(shape, x.dtype)))


def _elements_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, index, updates = types
    integral(index)
    axis = normalize_axis(attrs["axis"], x.rank)
    shape = x.shape[:axis] + index.shape[axis : axis + 1] + x.shape[axis + 1 :]
    if index.shape != shape:
        raise TypeRuleError("the indices %s and %s do not agree in all axes but axis %d" % (index, x, axis))
    _fitting(x, updates, shape)
    return (x,)


def _update_shape(x: TensorType, chosen: Attrs) -> Classes:
    """Returns shapes of the index without its coordinates, with at most one update per position."""
    places = _size(x.shape[: chosen["depth"]])
    shapes = {"vector": (4,), "matrix": (2, 3), "one": (1,), "none": ()}
    return {k: (s,) if _size(s) <= places else () for k, s in shapes.items()}


def _nd_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    m, shape = chosen["depth"], tuple(chosen["index_shape"])
    flat = permuted(_size(shape), _size(x.shape[:m]))
    if chosen["repeated"]:
        flat = [p // 2 for p in flat]
    index = nd_index(shape, x.shape[:m], flat, chosen["index_dtype"], chosen["index_last"])
    return (Operand(LEAD, x), index, Operand(DATA, TensorType(shape + x.shape[m:], x.dtype)))


def _nd_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, index, updates = types
    m, shape = nd_parts(index, attrs["index_last"])
    if m > x.rank:
        raise TypeRuleError("the indices %s have more coordinates than %s has axes" % (index, x))
    _fitting(x, updates, shape + x.shape[m:])
    return (x,)


def _nd_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.scatter_nd(*args, mode=attrs["mode"])


def _nd_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.scatter_nd(*args, reduction=attrs["mode"])


def _put_count(x: TensorType, chosen: Attrs) -> Classes:
    return {"some": (min(4, x.size),), "one": (1,), "all": (x.size,)}


def _put_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    # All positions differ: TVM's loop over the values is parallel, so two at one position may race.
    flat = permuted(chosen["count"], x.size)
    indices: list[Operand] = []
    for d in reversed(x.shape):
        index = TensorType((len(flat),), chosen["index_dtype"])
        indices.insert(0, Operand(FRESH, index, data=[p % d for p in flat]))
        flat = [p // d for p in flat]
    return (Operand(LEAD, x), *indices, Operand(DATA, TensorType((len(flat),), x.dtype)))


def _put_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, indices, values = types[0], types[1:-1], types[-1]
    integral(*indices)
    shape: tuple[int, ...] = ()
    for t in indices:
        shape = broadcast(shape, t.shape)
    if len(indices) != x.rank or any(t.shape != shape for t in indices):
        raise TypeRuleError(
            "%d indices do not fit %s: one for each axis is needed, all of one shape" % (len(indices), x)
        )
    _fitting(x, values, shape)
    return (x,)


def _put_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.index_put(args[0], args[1:-1], args[-1], accumulate=attrs["accumulate"])


# --- strided_set, slice_scatter, matrix_set_diag ----------------------------------------------


def _whole(classes: Any) -> Any:
    """Returns the given classes of a slice, for a slice along all axes."""
    return lambda x, chosen: classes(x, {**chosen, "axes": None})


def _set_begin(x: TensorType, chosen: Attrs) -> Classes:
    # TVM does not clip a begin that lies before the first element: it writes outside of the tensor.
    return {k: v for k, v in _whole(slice_begin)(x, chosen).items() if k != "beyond"}


def _set_strides(x: TensorType, chosen: Attrs) -> Classes:
    # With strides below -1 TVM counts the steps from the end, so they are left out.
    classes = slice_strides(x, {**chosen, "axes": None})
    return {k: tuple(s for s in v if min(s) >= -1) for k, v in classes.items()}


def _set_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return (Operand(LEAD, x), Operand(DATA, slice_infer([x], {**chosen, "axes": None})[0]))


def _set_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, values = types
    _fitting(x, values, slice_infer([x], {**attrs, "axes": None})[0].shape)
    return (x,)


def _set_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    begin, end, strides = (list(attrs[name]) for name in ("begin", "end", "strides"))
    return ns.strided_set(args[0], args[1], begin, end, strides)


def _scatter_start(x: TensorType, chosen: Attrs) -> Classes:
    # Only from the front: TVM counts a negative start or end as elements of the slice, and sets none.
    extent = x.shape[chosen["axis"]]
    return {"inside": (extent // 2,) if extent > 1 else (), "edge": (0,)}


def _scatter_end(x: TensorType, chosen: Attrs) -> Classes:
    extent, start = x.shape[chosen["axis"]], chosen["start"]
    return {"edge": (extent,), "inside": (extent - 1,) if extent - 1 > start else ()}


def _scatter_shape(x: TensorType, attrs: Attrs) -> tuple[int, ...]:
    axis = normalize_axis(attrs["axis"], x.rank)
    if attrs["step"] < 1 or not 0 <= attrs["start"] < attrs["end"] <= x.shape[axis]:
        raise TypeRuleError("no slice of axis %d of %s: %s" % (axis, x, dict(attrs)))
    steps = len(range(attrs["start"], attrs["end"], attrs["step"]))
    return x.shape[:axis] + (steps,) + x.shape[axis + 1 :]


def _scatter_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return (Operand(LEAD, x), Operand(DATA, TensorType(_scatter_shape(x, chosen), x.dtype)))


def _scatter_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, values = types
    _fitting(x, values, _scatter_shape(x, attrs))
    return (x,)


def _diagonals(x: TensorType, chosen: Attrs) -> Classes:
    m, n = x.shape[-2:]
    return {
        "main": (0,),
        "above": tuple(range(1, n)),
        "below": tuple(range(1 - m, 0)),
        "band": ((-1, 1), (-1, 0), (0, 1)) if m > 1 and n > 1 else (),
        "wide_band": ((1 - m, n - 1),) if m > 2 and n > 2 else (),
    }


def _align(x: TensorType, chosen: Attrs) -> Classes:
    others = ("LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT") if isinstance(chosen["k"], tuple) else ()
    return {"right_left": ("RIGHT_LEFT",), "others": others}


def _diagonal_shape(x: TensorType, k: Any) -> tuple[int, ...]:
    low, high = k if isinstance(k, tuple) else (k, k)
    m, n = x.shape[-2:]
    longest = min(m + min(high, 0), n - max(low, 0))
    if not -m < low <= high < n:
        raise TypeRuleError("%s does not have the diagonals %s" % (x, k))
    return x.shape[:-2] + ((high - low + 1,) if low < high else ()) + (longest,)


def _diagonal_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return (Operand(LEAD, x), Operand(DATA, TensorType(_diagonal_shape(x, chosen["k"]), x.dtype)))


def _diagonal_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    _fitting(types[0], types[1], _diagonal_shape(types[0], attrs["k"]))
    return (types[0],)


# --- sequence_mask, reverse_sequence ---------------------------------------------------------


def _mask_value(x: TensorType, chosen: Attrs) -> Classes:
    return {"zero": (0.0,), "other": (-1.5, 0.31234567) if x.dtype in FLOATS else (3.0,)}


def _mask_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    lengths = TensorType((x.shape[1 - chosen["axis"]],), chosen["index_dtype"])
    return (Operand(LEAD, x), Operand(FRESH, lengths, 0, x.shape[chosen["axis"]] + 1))


def _mask_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, lengths = types
    integral(lengths)
    if x.rank < 2 or lengths.shape != (x.shape[1 - attrs["axis"]],):
        raise TypeRuleError("%s is not the type of the lengths of %s" % (lengths, x))
    return (x,)


def _sequence_axis(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    return {"second": (1,), "first": (0,), "last": (r - 1,) if r > 2 else (), "negative": (-1, -r)}


def _batch_axis(x: TensorType, chosen: Attrs) -> Classes:
    r, taken = x.rank, normalize_axis(chosen["seq_axis"], x.rank)
    return {
        "first": (0,) if taken else (),
        "other": tuple(i for i in range(1, r) if i != taken),
        "negative": tuple(i - r for i in range(r) if i != taken),
    }


def _reverse_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    n = x.shape[chosen["seq_axis"]]
    lengths = TensorType((x.shape[chosen["batch_axis"]],), chosen["index_dtype"])
    low, high = (-1, n + 3) if chosen["beyond"] else (1, n)
    return (Operand(LEAD, x), Operand(FRESH, lengths, low, high))


def _reverse_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, lengths = types
    normalize_axis(attrs["seq_axis"], x.rank)
    if lengths.dtype not in ("int32", "int64"):
        raise TypeRuleError("the lengths have the dtype %s, int32 or int64 is needed" % lengths.dtype)
    if lengths.shape != (x.shape[normalize_axis(attrs["batch_axis"], x.rank)],):
        raise TypeRuleError("%s is not the type of the lengths of %s" % (lengths, x))
    return same_type(types, attrs)


_MATRICES = ((3, 4, 5), (6, 5), (1, 7), (67, 2), (2, 3, 4, 5))
_INDEX_LAST = Parameter("index_last", {"no": (False,), "yes": (True,)})


def _placing(name: str, infer: Any, operands: Any, *parameters: Parameter, **more: Any) -> Operator:
    fields: dict[str, Any] = {"accuracy": "exact", "accepts": some, "shapes": SHAPES, "dtypes": NUMBERS}
    fields.update(more)
    return Operator(name=name, infer=infer, operands=operands, parameters=parameters, **fields)


def _matrix(x: TensorType) -> bool:
    return x.rank > 1 and x.size > 0


OPERATORS: tuple[Operator, ...] = (
    _placing(
        "scatter_elements",
        _elements_infer,
        _elements_operands,
        Parameter("axis", axis_classes),
        Parameter("reduction", _element_reductions),
        Parameter("length", _update_count, attribute=False),
        Parameter("repeated", _repeated, attribute=False),
        INDEX_DTYPE,
        accuracy=_REDUCED,
        relay=call("scatter_elements"),
        relax=call("scatter_elements"),
    ),
    _placing(
        "scatter_nd",
        _nd_infer,
        _nd_operands,
        Parameter("mode", _reductions),
        Parameter("depth", index_depth, attribute=False),
        Parameter("index_shape", _update_shape, attribute=False),
        Parameter("repeated", _repeated, attribute=False),
        INDEX_DTYPE,
        # Coordinates are along the indices' first dimension in Relay, along their last in Relax.
        _INDEX_LAST,
        accuracy=_REDUCED,
        relay=Lowering("scatter_nd", _nd_relay, {"index_last": (False,)}),
        relax=Lowering("scatter_nd", _nd_relax, {"index_last": (True,)}),
    ),
    _placing(
        "index_put",
        _put_infer,
        _put_operands,
        Parameter("count", _put_count, attribute=False),
        Parameter("accumulate", {"no": (False,), "yes": (True,)}),
        INDEX_DTYPE,
        accuracy="exact; 1 rounding of a sum",
        relax=Lowering("index_put", _put_relax),
    ),
    _placing(
        "strided_set",
        _set_infer,
        _set_operands,
        Parameter("strides", _set_strides),
        Parameter("begin", _set_begin),
        Parameter("end", _whole(slice_end)),
        relay=Lowering("strided_set", _set_relay),
    ),
    _placing(
        "slice_scatter",
        _scatter_infer,
        _scatter_operands,
        Parameter("axis", axis_classes),
        Parameter("step", {"unit": (1,), "strided": (2, 3)}),
        Parameter("start", _scatter_start),
        Parameter("end", _scatter_end),
        relax=call("slice_scatter"),
    ),
    _placing(
        "matrix_set_diag",
        _diagonal_infer,
        _diagonal_operands,
        Parameter("k", _diagonals),
        Parameter("align", _align),
        accepts=_matrix,
        shapes=_MATRICES,
        dtypes=ANY,
        relay=call("matrix_set_diag"),
    ),
    _placing(
        "sequence_mask",
        _mask_infer,
        _mask_operands,
        Parameter("mask_value", _mask_value),
        Parameter("axis", {"first": (0,), "second": (1,)}),
        INDEX_DTYPE,
        accuracy="exact with mask_value rounded to the dtype",
        accepts=_matrix,
        shapes=_MATRICES,
        relay=call("sequence_mask"),
    ),
    _placing(
        "reverse_sequence",
        _reverse_infer,
        _reverse_operands,
        Parameter("seq_axis", _sequence_axis),
        Parameter("batch_axis", _batch_axis),
        Parameter("beyond", {"no": (False,), "yes": (True,)}, attribute=False),
        INDEX_DTYPE,
        accepts=_matrix,
        shapes=_MATRICES,
        dtypes=ANY,
        relay=call("reverse_sequence"),
        relax=call("reverse_sequence"),
    ),
)
