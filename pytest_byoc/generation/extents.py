"""Systematic cases in which the extents or the position of channels matter: axes of equal length,
long axes, five axes of more than one element, short rows in whole cache lines, and channels last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ..core.graph import TensorType
from ..operators.measured import left_out
from ..operators.record import FLOATS, Operator
from . import boundary
from .data import numpy_dtype
from .single import NoSuchClass, OneNodeGraph, by_default, class_names, picking

#: Names of the parameters that give the position of channels, and their classes with channels last.
_LAYOUTS, _LAST = ("data_layout", "layout"), ("nwc", "nhwc", "ndhwc")
#: The extent of each axis where all axes have the same length.
EQUAL = 4
#: Five axes, none of one element; the records' own shapes of five axes have some of one element.
FIVE = (2, 3, 2, 4, 2)
#: Extents that no vector and no tile divides, and that are larger than most. The last axis has more
#: elements than two vectors of 16.
LONG, LONG_LAST = 19, 35
#: Bytes in a short row, less than any vector has. A tensor of 16 such rows fills a cache line of 64
#: bytes, and nothing may be read behind it.
ROW = 4


def of_extents(op: Operator, dtype: str, ir: str | None) -> Iterator[tuple[str, OneNodeGraph | None]]:
    """Yields (label, graph or None) for an operator's cases in a dtype of its first operand."""
    if any(len(s) == len(FIVE) for s in op.shapes) and FIVE not in op.shapes:
        yield f"{dtype}-five_axes", _shaped(op, TensorType(FIVE, dtype), {})
    rank = len(op.shapes[0])
    if rank < 2:
        return
    row = max(1, ROW // numpy_dtype(dtype).itemsize)
    short = (*(1,) * (rank - 3), *((4, 4) if rank > 2 else (16,)), row)
    yield f"{dtype}-long_ends", _shaped(op, TensorType((LONG, *op.shapes[0][1:-1], LONG_LAST), dtype), {})
    if rank > 2:
        middle = TensorType((op.shapes[0][0], *(LONG,) * (rank - 2), op.shapes[0][-1]), dtype)
        yield f"{dtype}-long_middle", _shaped(op, middle, {})
    yield f"{dtype}-equal_extents", _shaped(op, TensorType((EQUAL,) * rank, dtype), {})
    yield f"{dtype}-short_rows-aligned", _shaped(op, TensorType(short, dtype), {})
    layout, last = _channels_last(op, dtype)
    if not last:
        return
    forced, label = {layout: last}, f"{dtype}-{layout}_{last}"
    for what, channels in (("aligned", boundary.VECTOR), ("short_rows-aligned", row)):
        yield f"{label}-{what}", _shaped(op, TensorType((1, *(4,) * (rank - 2), channels), dtype), forced)
    if dtype in FLOATS and left_out(op, f"{dtype}-nan", ir) is None:
        with suppress(NoSuchClass):
            yield f"{label}-nan", OneNodeGraph(boundary.with_nan(op, dtype, picking(forced)))


def _channels_last(op: Operator, dtype: str) -> tuple[str, str]:
    """Returns the parameter that gives the position of channels, and its class with channels last;
    an empty string for each that does not exist."""
    for position, parameter in enumerate(op.parameters):
        if parameter.name in _LAYOUTS:
            labels = class_names(op, position, dtype)
            return parameter.name, next((label for label in labels if label in _LAST), "")
    return "", ""


def _shaped(op: Operator, x: TensorType, forced: dict[str, str]) -> OneNodeGraph | None:
    return by_default(op, x, forced) if op.accepts(x) and x.size <= boundary.LARGE else None
