"""Systematic cases at the edges of values and shapes: NaN, infinities, zeros of both signs, subnormals,
the largest and smallest numbers; one large tensor, one of whole vectors, tensors of a single element and of
none; products of which tiles leave nothing, or something along one of their extents.

Every operator is offered all of them. `measured` says which of them nothing can be judged with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from ml_dtypes import finfo

from ..core.graph import Graph, TensorType
from ..operators.record import DATA, FLOATS, OUT_DTYPE, Operand, Operator
from .builder import Builder, Pick, choose_parameters, first
from .data import numpy_dtype

#: Makes a case's graph. Raises where the operator takes no such shape at all.
Make = Callable[[], Graph]
#: Integer dtypes whose edges are tried: both signs, the narrowest and the widest.
EDGED = ("int32", "int8", "uint8", "int64")
#: The last dimension of a large tensor: prime, so a multiple of no vector. The first that leaves it LARGE.
LONG = (1031, 331, 131)
LARGE = 20_000
#: What the channels of a tensor are multiples of that ends with a vector, and its last dimension: one more
#: than a byte counts.
VECTOR, BYTE = 16, 256
#: Channels, or columns, for which an array of all of them, or a byte that counts them, has no room.
MANY = 260
#: Rows, depth and columns of products: multiples of a tile, what leaves over something of any, and more than
#: an array of all columns or all of the depth may have room for.
TILES = (
    (16, 16, 16), (16, 19, 16), (19, 16, 16), (16, 16, 19), (19, 19, 19), (4, 3, MANY), (4, MANY, 3),
)
TILED = "tiles_"
#: Parameters that say how many columns, or channels, there are.
_COLUMNS = ("units", "columns", "channels")
#: Rows of a tensor that holds special values, if the operator has a shape of so many.
ROWS = 6
#: Elements of a source: numbers, and strings for what JSON has no numbers for.
_Values = tuple[Any, ...]


def candidates(op: Operator, dtypes: Sequence[str]) -> Iterator[tuple[str, Make]]:
    """(label, what makes the graph) of each case of an operator in those dtypes of its first operand."""
    floats = [d for d in dtypes if d in FLOATS]
    for dtype in floats:
        for label in FLOAT_LABELS if dtype == floats[0] else ("special_values",):
            yield f"{dtype}-{label}", _given(op, dtype, _FLOATING[label](dtype))
    if floats and _binary(op, TensorType(op.shapes[0], floats[0])):
        yield f"{floats[0]}-same_operand_special", _doubled(op, TensorType(op.shapes[0], floats[0]))
    # Few targets take it: as a class of the parameter it would be in half of all graphs.
    if OUT_DTYPE in op.parameters and "float32" in dtypes:
        x = TensorType(op.shapes[0], "float32")
        yield "float32-out_dtype_float64", _drawn(op, x, out_dtype="float64")
    # A domain of integers is one of indices.
    for dtype in (d for d in EDGED if d in dtypes and op.domain is None):
        yield f"{dtype}-edges", _given(op, dtype, _edges(dtype))
    shape = op.shapes[0]
    rank = max(1, len(shape))
    counted = next((p.name for p in op.parameters if p.name in _COLUMNS), None)
    shapes = {
        "large": op.large or _large(shape),
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
        for extents in TILES:
            label = f"{dtypes[0]}-{TILED}" + "x".join(map(str, extents))
            yield label, _tiled(op, dtypes[0], counted, *extents)


def _tiled(op: Operator, dtype: str, counted: str, rows: int, depth: int, columns: int) -> Make:
    """A product of such extents, depth being what is summed over. Of an image the depth is its channels, and
    the rows lie along its last axis, beside the two that a window of three takes."""
    simplest = op.shapes[0]
    image = counted == "channels"
    shape = (simplest[0], depth, *simplest[2:-1], rows + 2) if image else (*simplest[:-2], rows, depth)
    return _drawn(op, TensorType(shape, dtype), **{counted: columns})


def _large(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with a long last dimension."""
    fitting = (n for n in LONG if n * prod(shape[:-1]) <= LARGE)
    return (*shape[:-1], next(fitting, LONG[-1]))


def _aligned(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with so many channels, rows and columns that vectors leave nothing over."""
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
#: Cases of the first floating dtype; the others have one of all kinds.
FLOAT_LABELS = tuple(label for label in _FLOATING if label != "special_values")


def _edges(dtype: str) -> tuple[_Values, ...]:
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    return ((low, -1), (0, high)) if low else ((high, 1), (0, high - 1))


# --- graphs ----------------------------------------------------------------------------------


def with_nan(op: Operator, dtype: str, pick: Pick) -> Graph:
    """The operator of a tensor with NaN at its beginning and its end, with parameters of one's own choice."""
    return _given(op, dtype, _nan(dtype), pick)()


def _given(op: Operator, dtype: str, groups: tuple[_Values, ...], pick: Pick = first) -> Make:
    """The operator of a tensor in which the groups of values lie far from each other, the first at its
    beginning, the last at its end. Of an operator of two tensors of one type every pair of the values
    meets, and each of them an ordinary number, if a shape has room for them."""

    def make() -> Graph:
        builder = Builder(seed=1)
        # In a short tensor they would spoil every row.
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


def _doubled(op: Operator, x: TensorType) -> Make:
    """The operator of a tensor and itself, in which there is all that is special, and zero."""

    def make() -> Graph:
        builder = Builder(seed=1)
        elements = _placed((*_mixed(x.dtype), (0.0,)), x, *op.range(x.dtype))
        return with_itself(op, builder, builder.input(x, data=elements))

    return make


def with_itself(op: Operator, builder: Builder, lead: str) -> Graph:
    """The operator with its first operand in every data position it fits."""
    x = builder.types[lead]

    def supply(operand: Operand, position: int) -> str:
        return lead if operand.role == DATA and operand.type == x else builder.fresh(operand, position)

    return builder.graph(*builder.apply(op, lead, choose_parameters(op, x, first), supply)[: op.used])


def _paired(groups: tuple[_Values, ...]) -> tuple[tuple[_Values, ...], tuple[_Values, ...]]:
    """What two operands hold at the same places so that any two of the values meet, and each of them 1:
    half of the pairs at the beginning, half at the end."""
    values = [v for group in groups for v in group] + [1]
    # By their text: -0.0 equals 0.0.
    distinct = list({str(v): v for v in values}.values())
    pairs = list(product(distinct, repeat=2))[:-1]
    half = (len(pairs) + 1) // 2
    parts = (pairs[:half], pairs[half:])
    mine, other = (tuple(tuple(pair[side] for pair in part) for part in parts) for side in (0, 1))
    return mine, other


def _binary(op: Operator, x: TensorType) -> bool:
    """Whether the operator takes, by default, one other tensor of any values of the type."""
    others = [o for o in op.operands(x, choose_parameters(op, x, first)) if o.role == DATA]
    return sum(o.type == x for o in others) == 1


def _placed(groups: Sequence[_Values], type_: TensorType, low: float, high: float) -> list[Any]:
    """Ordinary elements, and the groups among them: the first at the beginning, the last at the end."""
    floating = type_.dtype in FLOATS
    steps = [low + i % 17 / 16 * (high - low) for i in range(0, 7 * type_.size, 7)]
    elements: list[Any] = steps if floating else [round(v) for v in steps]
    for i, group in enumerate(groups):
        room = max(0, type_.size - len(group))
        at = room * i // max(1, len(groups) - 1)
        elements[at : at + len(group)] = group[: type_.size]
    return elements


def _drawn(op: Operator, x: TensorType, **forced: Any) -> Make:
    """forced: parameters that don't have their defaults."""

    def make() -> Graph:
        builder = Builder(seed=1)
        chosen = {**choose_parameters(op, x, first), **forced}
        return builder.graph(*builder.apply(op, builder.lead(op, x), chosen)[: op.used])

    return make
