"""Systematic cases at the edges of values and shapes.

Values: NaN, infinities, zeros of both signs, subnormals, the largest and smallest numbers. Shapes:
one large tensor, one of whole vectors, tensors of one element and of none, and products whose
extents leave a remainder, or none, when they are cut into tiles.

Cases are made for every operator; `measured.left_out` says in which of them nothing can be judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
from ml_dtypes import finfo

from ..core.graph import Graph, TensorType
from ..operators.record import DATA, FLOATS, INTEGERS, OUT_DTYPE, Operand, Operator
from .builder import Builder, Pick, choose_parameters, first
from .data import numpy_dtype
from .single import class_names, picking

#: Makes a case's graph. Raises if the operator does not accept the shape.
Make = Callable[[], Graph]
#: Integer dtypes whose edges are tested: signed and unsigned, the narrowest and the widest.
EDGED = ("int32", "int8", "uint8", "int64")
#: The last dimension of a large tensor is the first of LONG with which it has at most LARGE
#: elements. They are primes, so no vector length divides them.
LONG = (1031, 331, 131)
LARGE = 20_000
#: In the aligned shape, the channels and the last dimension. VECTOR is a multiple of common vector
#: lengths; BYTE is one more than a byte can count.
VECTOR, BYTE = 16, 256
#: A number of channels, or columns, that is too large for a byte that counts them, and for an array
#: of a fixed size that has one element for each.
MANY = 260
#: Rows, depth and columns of products: multiples of a tile in all three, a remainder in one or in
#: all, and more columns, or more depth, than an array of a fixed size may have room for.
TILES = (
    (16, 16, 16), (16, 19, 16), (19, 16, 16), (16, 16, 19), (19, 19, 19), (4, 3, MANY), (4, MANY, 3),
)
#: Rows, depth and columns of products: kernels are chosen by all three together. Each pair of a few,
#: a middle or a large number of each occurs once, and none is a multiple of a tile.
SIZES = (
    (1, 19, 30), (1, 48, 97), (1, 1031, MANY), (5, 19, 97), (5, 48, MANY), (5, 1031, 30),
    (33, 19, MANY), (33, 48, 30), (33, 1031, 97),
)
TILED = "tiles_"
#: The case of an elementwise function over all that is of interest.
RANGE = "range"
#: The case of a long average in 16 bits, whose sum, and whose sum of squares, is beyond the largest
#: number; the extents that it is taken over, in two dimensions and in four; and the range of its
#: elements.
SUMS, _AVERAGED, _AROUND = "sums_overflow", ((2, 4096), (1, 2, 64, 64)), (20.0, 28.0)
#: The case of an average over elements that differ little from each other, and its range: the mean of
#: their squares less the square of their mean is all rounding.
MEAN, _FAR = "large_mean", (40000.0, 40003.0)
#: The case in which many elements are equal, the parameters that decide then, and the elements, which
#: are among the boundaries of `bucketize`.
TIES, _DECIDING = "ties", ("select_last_index", "right")
_EQUAL = (0.578125, -1.75, 1.75, 0.0, 1.75, -0.578125, -1.75)
#: The case of an operator with indices, the parameter that it has, and an axis of more elements than 16
#: bits count.
POSITIONS, INDICES, _COUNTED = "positions_of_17_bits", "index_dtype", (65539,)
#: Convolutions by kernels of one element, which are products, too.
POINTWISE = "pointwise_"
#: Names of the parameters that give the number of columns, or of channels. (The parameter `right` of
#: matmul gives the other operand's shape, of which the number of columns is the last extent.)
_COLUMNS = ("units", "columns", "channels")
#: The least number of rows of a tensor that holds special values, if the operator has such a shape.
ROWS = 6
#: Elements of a source: numbers, and strings for values that JSON cannot write as numbers.
_Values = tuple[Any, ...]


def candidates(op: Operator, dtypes: Sequence[str]) -> Iterator[tuple[str, Make]]:
    """Yields (label, function that makes the graph) for an operator's cases in these dtypes."""
    floats = [d for d in dtypes if d in FLOATS]
    for dtype in floats:
        for label in FLOAT_LABELS if dtype == floats[0] else ("special_values",):
            yield f"{dtype}-{label}", _given(op, dtype, _FLOATING[label](dtype))
    if floats and _binary(op, TensorType(op.shapes[0], floats[0])):
        yield f"{floats[0]}-same_operand_special", _doubled(op, TensorType(op.shapes[0], floats[0]))
    if floats and op.interesting:
        yield f"{floats[0]}-{RANGE}", _ranging(op, floats[0], first)
        for label in _result_dtypes(op, floats[0]):
            yield f"{floats[0]}-dtype_{label}-{RANGE}", _ranging(op, floats[0], picking({"dtype": label}))
    if op.averages and "float16" in dtypes:
        long = next(x for x in (TensorType(s, "float16") for s in _AVERAGED) if op.takes(x))
        yield f"float16-{SUMS}", _drawn(op, long, _AROUND)
    for place, parameter in enumerate(op.parameters):
        # The parameter `right` of matmul is another one.
        if floats and parameter.name in _DECIDING and not op.contraction:
            for label in class_names(op, place, floats[0]):
                made = _tied(op, floats[0], picking({parameter.name: label}))
                yield f"{floats[0]}-{parameter.name}_{label}-{TIES}", made
    if op.averages and floats:
        yield f"{floats[0]}-{MEAN}", _drawn(op, TensorType(op.shapes[0], floats[0]), _FAR)
    table = TensorType(_COUNTED, dtypes[0])
    if any(p.name == INDICES for p in op.parameters) and op.takes(table):
        yield f"{dtypes[0]}-{POSITIONS}", _far_off(_drawn(op, table))
    # Few targets offload it: as a class of the parameter it would be in half of all graphs.
    if OUT_DTYPE in op.parameters and "float32" in dtypes:
        x = TensorType(op.shapes[0], "float32")
        yield "float32-out_dtype_float64", _drawn(op, x, out_dtype="float64")
    # An operator of integers that has a domain takes indices.
    for dtype in (d for d in EDGED if d in dtypes and op.domain is None):
        yield f"{dtype}-edges", _given(op, dtype, _edges(dtype))
    shape = op.shapes[0]
    rank = max(1, len(shape))
    # Searches have a parameter `right` of another kind.
    names = (*_COLUMNS, *(("right",) if op.contraction else ()))
    counted = next((p.name for p in op.parameters if p.name in names), None)
    shapes = {
        "large": large_shape(op),
        "aligned": _aligned(shape),
        "shape_" + "x".join("1" * rank): (1,) * rank,
        "shape_scalar": (),
        "empty": (0,) + shape[1:],
        "empty_rows": shape[:-1] + (0,),
    }
    if counted is None and len(shape) == 4:
        shapes["channels"] = (shape[0], MANY, *shape[2:])
    for label, shape in shapes.items():
        if shape not in op.shapes:
            yield f"{dtypes[0]}-{label}", _drawn(op, TensorType(shape, dtypes[0]))
    if counted is not None and len(op.shapes[0]) > 1:
        image = counted == "channels"
        for extents in (*TILES, *(() if image else SIZES)):
            label = f"{dtypes[0]}-{TILED}" + "x".join(map(str, extents))
            yield label, _tiled(op, dtypes[0], counted, *extents)
        if image and op.contraction and len(op.shapes[0]) == 4:
            for rows, depth, columns in SIZES:
                label = f"{dtypes[0]}-{POINTWISE}{rows}x{depth}x{columns}"
                x = TensorType((1, depth, 1, rows), dtypes[0])
                yield label, _drawn(op, x, kernel_size=(1, 1), channels=columns)


def _tiled(op: Operator, dtype: str, counted: str, rows: int, depth: int, columns: int) -> Make:
    """Returns the maker of a product with these extents; `depth` is the extent that is summed over.

    For an image, the depth is the number of channels; the rows lie along its last axis, which is
    longer by the two elements that a window of three takes away."""
    simplest = op.shapes[0]
    image = counted == "channels"
    if counted == "right":
        return _drawn(op, TensorType((rows, depth), dtype), right=(depth, columns))
    shape = (simplest[0], depth, *simplest[2:-1], rows + 2) if image else (*simplest[:-2], rows, depth)
    return _drawn(op, TensorType(shape, dtype), **{counted: columns})


def large_shape(op: Operator) -> tuple[int, ...]:
    """Returns the shape of the operator's large tensor: that of its record, or the default one with a
    long last dimension."""
    if op.large is not None:
        return op.large
    shape = op.shapes[0]
    fitting = (n for n in LONG if n * prod(shape[:-1]) <= LARGE)
    return (*shape[:-1], next(fitting, LONG[-1]))


def _aligned(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape with channels, rows and columns that vectors divide without a remainder."""
    inner = [VECTOR, 4, 4, 4][: max(0, len(shape) - 2)]
    return (*(shape[:1] if len(shape) > 1 else ()), *inner, *([BYTE] if shape else []))


# --- values ----------------------------------------------------------------------------------


def _nan(dtype: str) -> tuple[_Values, ...]:
    return ("nan",), ("nan",)


def _infinities(dtype: str) -> tuple[_Values, ...]:
    return ("inf",), ("inf", "-inf"), (0.0, "-inf")


def _negative_zero(dtype: str) -> tuple[_Values, ...]:
    return (-0.0,), (0.0, -0.0), (-0.0,)


def _subnormals(dtype: str) -> tuple[_Values, ...]:
    least, normal = float(finfo(numpy_dtype(dtype)).smallest_subnormal), _smallest(dtype)
    return (normal / 2, least), (-least, -normal / 4), (-normal / 2,)


def _extremes(dtype: str) -> tuple[_Values, ...]:
    normal, largest = _smallest(dtype), _largest(dtype)
    return (largest,), (normal, -normal), (-largest,)


def _mixed(dtype: str) -> tuple[_Values, ...]:
    return ("nan",), (_largest(dtype),), (-0.0, _smallest(dtype) / 2), ("-inf",), ("inf",)


def _smallest(dtype: str) -> float:
    return float(finfo(numpy_dtype(dtype)).smallest_normal)


def _largest(dtype: str) -> float:
    return float(finfo(numpy_dtype(dtype)).max)


_FLOATING: dict[str, Callable[[str], tuple[_Values, ...]]] = {
    "nan": _nan,
    "infinities": _infinities,
    "negative_zero": _negative_zero,
    "subnormals": _subnormals,
    "extremes": _extremes,
    "special_values": _mixed,
}
#: Labels of the first floating dtype's cases; the other dtypes have one case with values of all
#: kinds.
FLOAT_LABELS = tuple(label for label in _FLOATING if label != "special_values")


def _edges(dtype: str) -> tuple[_Values, ...]:
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    return ((low, -1), (0, high)) if low else ((high, 1), (0, high - 1))


# --- graphs ----------------------------------------------------------------------------------


def with_nan(op: Operator, dtype: str, pick: Pick) -> Graph:
    """Returns the operator on a tensor that begins and ends with NaN; `pick` picks parameters."""
    return _given(op, dtype, _nan(dtype), pick)()


def _given(op: Operator, dtype: str, groups: tuple[_Values, ...], pick: Pick = first) -> Make:
    """Returns the maker of the operator on a tensor in which groups of values lie far apart.

    The first group is at the tensor's beginning, the last at its end. If the operator has two
    tensors of one type, each pair of the values occurs at the same place of both, and so does each
    value beside an ordinary number, if a shape is large enough."""

    def make() -> Graph:
        builder = Builder(seed=1)
        # In a short tensor the special values would spoil every row.
        shape = next((s for s in op.shapes if prod(s[:-1]) >= ROWS), op.shapes[0])
        mine = other = groups
        if binary := _binary(op, TensorType(shape, dtype)):
            mine, other = _paired(groups)
            shape = next((s for s in op.shapes if prod(s) > sum(map(len, mine))), shape)
        x = TensorType(shape, dtype)
        chosen = choose_parameters(op, x, pick)
        lead = builder.input(x, data=_placed(mine, x, *op.range(x.dtype)))

        def supply(operand: Operand, position: int) -> str:
            if binary and operand.role == DATA and operand.type == x:
                return builder.input(operand.type, data=_placed(other, operand.type, *operand.range()))
            return builder.fresh(operand)

        return builder.graph(*builder.apply(op, lead, chosen, supply)[: op.used])

    return make


def _far_off(make: Make) -> Make:
    """Returns the maker of a graph whose drawn indices are the three largest ones."""

    def far_off() -> Graph:
        graph = make()
        inputs = (
            replace(s, low=s.high - 2) if s.type.dtype in INTEGERS and s.data is None else s
            for s in graph.inputs
        )
        return replace(graph, inputs=tuple(inputs))

    return far_off


def _tied(op: Operator, dtype: str, pick: Pick) -> Make:
    """Returns the maker of the operator on a long row of few different values."""
    x = TensorType(max(op.shapes, key=lambda shape: shape[-1]), dtype)
    return _holding(op, x, [_EQUAL[i % len(_EQUAL)] for i in range(x.size)], pick)


def _result_dtypes(op: Operator, dtype: str) -> tuple[str, ...]:
    """Returns the classes, but the default, of the parameter that gives the dtype of the result."""
    place = next((i for i, p in enumerate(op.parameters) if p.name == "dtype"), None)
    return () if place is None else class_names(op, place, dtype)[1:]


def _ranging(op: Operator, dtype: str, pick: Pick) -> Make:
    """Returns the maker of the operator on the values that are of interest for it."""
    shapes = ((1,) * rank + (len(op.interesting),) for rank in range(5))
    x = next(x for x in (TensorType(shape, dtype) for shape in shapes) if op.takes(x))
    return _holding(op, x, op.interesting, pick)


def _holding(op: Operator, x: TensorType, elements: Sequence[Any], pick: Pick) -> Make:
    """Returns the maker of the operator on a tensor of these elements."""

    def make() -> Graph:
        builder = Builder(seed=1)
        lead = builder.input(x, data=list(elements))
        return builder.graph(*builder.apply(op, lead, choose_parameters(op, x, pick))[: op.used])

    return make


def _doubled(op: Operator, x: TensorType) -> Make:
    """Returns the maker of the operator on a tensor and itself, with zero and special values."""

    def make() -> Graph:
        builder = Builder(seed=1)
        elements = _placed((*_mixed(x.dtype), (0.0,)), x, *op.range(x.dtype))
        return with_itself(op, builder, builder.input(x, data=elements))

    return make


def with_itself(op: Operator, builder: Builder, lead: str) -> Graph:
    """Returns the operator with its first operand in every data position whose type it has."""
    x = builder.types[lead]

    def supply(operand: Operand, position: int) -> str:
        return lead if operand.role == DATA and operand.type == x else builder.fresh(operand, position)

    return builder.graph(*builder.apply(op, lead, choose_parameters(op, x, first), supply)[: op.used])


def _paired(groups: tuple[_Values, ...]) -> tuple[tuple[_Values, ...], tuple[_Values, ...]]:
    """Returns the groups of values of two operands: at the same places they hold all pairs of the
    values, and each value beside 1. Half of the pairs are for the beginning, half for the end."""
    values = [v for group in groups for v in group] + [1]
    # The text distinguishes the values, because -0.0 equals 0.0.
    distinct = list({str(v): v for v in values}.values())
    pairs = list(product(distinct, repeat=2))[:-1]
    half = (len(pairs) + 1) // 2
    parts = (pairs[:half], pairs[half:])
    mine, other = (tuple(tuple(pair[side] for pair in part) for part in parts) for side in (0, 1))
    return mine, other


def _binary(op: Operator, x: TensorType) -> bool:
    """Returns whether the operator has, by default, exactly one other operand of that type."""
    others = [o for o in op.operands(x, choose_parameters(op, x, first)) if o.role == DATA]
    return sum(o.type == x for o in others) == 1


def _placed(groups: Sequence[_Values], type_: TensorType, low: float, high: float) -> list[Any]:
    """Returns ordinary elements with the groups among them, the first at the beginning, the last at
    the end."""
    floating = type_.dtype in FLOATS
    steps = [low + i % 17 / 16 * (high - low) for i in range(0, 7 * type_.size, 7)]
    elements: list[Any] = steps if floating else [round(v) for v in steps]
    for i, group in enumerate(groups):
        room = max(0, type_.size - len(group))
        at = room * i // max(1, len(groups) - 1)
        elements[at : at + len(group)] = group[: type_.size]
    return elements


def _drawn(
    op: Operator, x: TensorType, around: tuple[float, float] | None = None, /, **forced: Any
) -> Make:
    """Returns the maker of the operator on drawn elements.

    around: the range of the first operand, if not that of the record. forced: values of some
    parameters."""

    def make() -> Graph:
        builder = Builder(seed=1)
        chosen = {**choose_parameters(op, x, first), **forced}
        lead = builder.input(x, *(around or op.range(x.dtype)))
        return builder.graph(*builder.apply(op, lead, chosen)[: op.used])

    return make
