"""Systematic cases in which the extents or the position of channels matter: axes of equal length,
long axes, five axes of more than one element, short rows in whole cache lines, and channels last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
#: Parameters that say which axes an operator runs along, or how an operand is broadcast, with the
#: classes that also get long axes: code for vectors is written for each of them.
_ACROSS: dict[str, tuple[str, ...]] = {
    "other_shape": ("trailing", "channel", "inner_one"),
    "axis": ("first", "other"),
    "axes": ("first", "inner"),
}
#: Narrow dtypes, of which a vector holds more elements, in the order of how often they are met.
_NARROW = ("int8", "float16", "uint8", "bfloat16", "int16")
#: Bytes in a short row, less than any vector has. A tensor of 16 such rows fills a cache line of 64
#: bytes, and nothing may be read behind it.
ROW = 4


def of_extents(
    op: Operator, dtypes: Sequence[str], ir: str | None
) -> Iterator[tuple[str, OneNodeGraph | None]]:
    """Yields (label, graph or None) for an operator's cases. dtypes: those of its first operand; most
    cases are in the first one."""
    dtype = dtypes[0]
    if any(len(s) == len(FIVE) for s in op.shapes) and FIVE not in op.shapes:
        yield f"{dtype}-five_axes", _shaped(op, TensorType(FIVE, dtype), {})
    rank = len(op.shapes[0])
    if rank < 2:
        return
    yield from _long(op, dtypes)
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
            yield f"{label}-nan", OneNodeGraph(boundary.with_nan(op, dtype, picking(forced)))


def narrow(dtypes: Sequence[str]) -> list[str]:
    """Returns the two narrow dtypes that are met most often, without an operator's first dtype."""
    return [d for d in _NARROW if d in dtypes[1:]][:2]


def _long(op: Operator, dtypes: Sequence[str]) -> Iterator[tuple[str, OneNodeGraph | None]]:
    """Yields the cases with long axes: in the first dtype, in a narrow dtype at smoke and in another
    beyond it, and with each way of running across the axes."""
    outer, *inner, last = op.shapes[0]
    ends, dtype = (LONG, *inner, LONG_LAST), dtypes[0]
    yield f"{dtype}-long_ends", _shaped(op, TensorType(ends, dtype), {})
    if inner:
        middle = (outer, *(LONG,) * len(inner), last)
        yield f"{dtype}-long_middle", _shaped(op, TensorType(middle, dtype), {})
    for position, parameter in enumerate(op.parameters):
        names = class_names(op, position, dtype)
        for label in (n for n in _ACROSS.get(parameter.name, ()) if n in names):
            made = _shaped(op, TensorType(ends, dtype), {parameter.name: label})
            yield f"{dtype}-{parameter.name}_{label}-long_ends", made
    # The label `long` is not among the endings of level smoke: the second dtype is tried at standard.
    for number, other in enumerate(narrow(dtypes)):
        yield f"{other}-long" + ("" if number else "_ends"), _shaped(op, TensorType(ends, other), {})


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
