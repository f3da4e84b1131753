"""Helpers for writing C."""

from __future__ import annotations

import math
import struct
from typing import Any, Iterable, List, Sequence

from .extent import Length

C_TYPES = {"float32": "float", "float64": "double", "int32": "int32_t"}


def literal(value: Any, dtype: str) -> str:
    """Returns a C constant with exactly this value; hexadecimal digits avoid rounding."""
    if dtype == "int32":
        # In C, -2147483648 is the negation of 2147483648, which does not fit into an int.
        return str(value) if value > -(2**31) else "(-2147483647 - 1)"
    suffix = "f" if dtype == "float32" else ""
    if math.isnan(value):
        return f"(0.0{suffix} / 0.0{suffix})"
    if math.isinf(value):
        return f"({'-' if value < 0 else ''}1.0{suffix} / 0.0{suffix})"
    if dtype == "float32":
        try:
            (value,) = struct.unpack("f", struct.pack("f", value))
        except OverflowError:
            value = math.copysign(math.inf, value)
        if math.isinf(value):  # what is too large becomes infinity
            return literal(value, dtype)
    value = float(value)
    if abs(value) < 2**20 and value == int(value):
        return f"{value}{suffix}"  # exact in decimal too, even -0.0, and readable
    mantissa, exponent = value.hex().split("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent}{suffix}"


def strides(shape: Sequence[Length]) -> List[Length]:
    """Returns the row-major strides of a dense tensor, in elements."""
    result, step = [], 1
    for extent in reversed(shape):
        result.append(step)
        step *= extent
    return result[::-1]


def broadcast_strides(shape: Sequence[Length], rank: int) -> List[Length]:
    """Returns the strides that read a tensor as one of rank ``rank``: 0 along repeated axes."""
    own = [0 if n == 1 else step for n, step in zip(shape, strides(shape))]
    return [0] * (rank - len(shape)) + own


def offset(steps: Sequence[Length], indices: Sequence[str], start: Length = 0) -> str:
    """Returns the C expression for the offset of the element with these indices."""
    terms = [str(start)] if start else []
    for step, index in zip(steps, indices):
        if step:
            terms.append(index if step == 1 else f"{index} * {step}")
    return " + ".join(terms) or "0"


def loop(index: str, extent: Length, body: Iterable[str]) -> List[str]:
    """Returns a counted loop. Its index has 64 bits, since products of 32-bit indices may overflow."""
    head = f"for (int64_t {index} = 0; {index} < {extent}; ++{index}) {{"
    return [head, *("  " + line for line in body), "}"]


def loops(indices: Sequence[str], extents: Sequence[Length], body: Iterable[str]) -> List[str]:
    """Returns nested loops, the first index outermost; the body alone if there are no indices."""
    lines = list(body)
    for index, extent in reversed(list(zip(indices, extents))):
        lines = loop(index, extent, lines)
    return lines
