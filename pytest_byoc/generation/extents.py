"""Systematic cases whose extents, or the place of their channels, are what matters: axes that are all as
long, or none of which is 1, short rows in whole cache lines, channels that are last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from ..core.graph import TensorType
from ..operators.measured import left_out
from ..operators.record import FLOATS, Operator
from . import boundary
from .data import numpy_dtype
from .single import Made, NoSuchClass, by_default, class_names, picking

#: Parameters that say where channels are, and their classes in which these are last.
_LAYOUTS, _LAST = ("data_layout", "layout"), ("nwc", "nhwc", "ndhwc")
#: The extent of each axis where all are as long.
EQUAL = 4
#: Five axes, none of one element: of the records' shapes those of five have some of one.
FIVE = (2, 3, 2, 4, 2)
#: Bytes of a short row, less than any vector; such rows fill 64 bytes, behind which nothing may be read.
ROW = 4


def of_extents(op: Operator, dtype: str, ir: str | None) -> Iterator[tuple[str, Made | None]]:
    """(label, graph) of each such case of an operator in that dtype of its first operand."""
    if any(len(s) == len(FIVE) for s in op.shapes) and FIVE not in op.shapes:
        yield f"{dtype}-five_axes", _shaped(op, TensorType(FIVE, dtype), {})
    rank = len(op.shapes[0])
    if rank < 2:
        return
    row = max(1, ROW // numpy_dtype(dtype).itemsize)
    short = (*(1,) * (rank - 3), *((4, 4) if rank > 2 else (16,)), row)
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
            yield f"{label}-nan", Made(boundary.with_nan(op, dtype, picking(forced)))


def _channels_last(op: Operator, dtype: str) -> tuple[str, str]:
    """The parameter that says where channels are, and its class in which they are last; "" where there is
    none."""
    for position, parameter in enumerate(op.parameters):
        if parameter.name in _LAYOUTS:
            found = class_names(op, position, dtype)
            return parameter.name, next((label for label in found if label in _LAST), "")
    return "", ""


def _shaped(op: Operator, x: TensorType, forced: dict[str, str]) -> Made | None:
    return by_default(op, x, forced) if op.accepts(x) else None
