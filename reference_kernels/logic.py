"""Kernels of comparisons, logical and bitwise operators, and selection by a condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .bounded import Bounded, integer
from .elementwise import Attrs, Kernel

Compare = Callable[[np.ndarray, np.ndarray], np.ndarray]


def boolean(value: Any, ambiguous: Any) -> Bounded:
    """Builds an exact result of dtype bool; `ambiguous` broadcasts to the value's shape."""
    value = np.asarray(value, bool)
    flags = np.array(np.broadcast_to(np.asarray(ambiguous, bool), value.shape))
    return Bounded(value, np.zeros(value.shape), flags, "bool")


def comparison(f: Compare, nan: bool = True) -> Kernel:
    """Builds the kernel of a comparison.

    The result is ambiguous where the operands' intervals overlap and one operand has an error. By
    IEEE 754, every comparison with NaN is false, except not_equal, which is true. With nan=False, a
    comparison with NaN is ambiguous.
    """

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        a, b = inputs
        unsure = np.logical_or(a.ambiguous, b.ambiguous)
        if a.is_float:
            unsure = unsure | ((a.low <= b.high) & (a.high >= b.low) & ((a.error > 0) | (b.error > 0)))
            if not nan:
                unsure = unsure | np.isnan(a.value) | np.isnan(b.value)
        return boolean(f(a.value, b.value), unsure)

    return kernel


def classified(f: Callable[[np.ndarray], np.ndarray]) -> Kernel:
    """Builds the kernel of isnan, isinf or isfinite.

    An element that is not ambiguous is known to be NaN, infinite or finite, whatever its error.
    """

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        (x,) = inputs
        return boolean(f(x.value), x.ambiguous)

    return kernel


def combined(f: Compare, absorbing: int | None = None) -> Kernel:
    """Builds the kernel of a logical or bitwise operator of two operands.

    absorbing: the operand value that determines the result whatever the other operand is: 0, or -1
    for all bits set. Beside it, an ambiguous operand does not make the result ambiguous.
    """

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        a, b = inputs
        y = f(a.value, b.value)
        unknown = np.logical_or(a.ambiguous, b.ambiguous)
        if absorbing is not None:
            decided = bool(absorbing) if a.dtype == "bool" else absorbing
            if a.dtype == "uint8" and absorbing:
                decided = 255
            settled = [(v.value == decided) & ~v.ambiguous for v in (a, b)]
            unknown = unknown & ~settled[0] & ~settled[1]
        return boolean(y, unknown) if a.dtype == "bool" else integer(y, unknown, a.dtype)

    return kernel


def logical_not(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    return boolean(~x.value, x.ambiguous)


def bitwise_not(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    if x.dtype == "bool":
        return boolean(~x.value, x.ambiguous)
    return integer(~x.value & (255 if x.dtype == "uint8" else -1), x.ambiguous, x.dtype)


def shift(left: bool) -> Kernel:
    """Builds the kernel of left_shift or right_shift.

    The result is ambiguous for counts outside 0 .. bits - 1, and where it does not fit the dtype.
    """

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        x, count = inputs
        bits = np.iinfo(x.dtype).bits
        outside = (count.value < 0) | (count.value >= bits)
        by = np.clip(count.value, 0, bits - 1)
        unknown = x.ambiguous | count.ambiguous | outside
        if not left:
            return integer(x.value >> by, unknown, x.dtype)
        # Shifting an int64 may wrap around here, so its magnitude is estimated in float64.
        large = np.abs(x.value.astype(np.float64)) * 2.0**by >= 2.0 ** (bits - 1 if x.dtype != "uint8" else 8)
        return integer(np.where(large, 0, x.value) << by, unknown | large, x.dtype)

    return kernel


def where(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Returns the selected elements with their errors; errors of the others have no effect."""
    condition, a, b = inputs

    def pick(f: Callable[[Bounded], np.ndarray]) -> np.ndarray:
        return np.where(condition.value, f(a), f(b))

    ambiguous = pick(lambda x: x.ambiguous) | condition.ambiguous
    return Bounded(pick(lambda x: x.value), pick(lambda x: x.error), ambiguous, a.dtype)


KERNELS: dict[str, Kernel] = {
    "equal": comparison(np.equal),
    # TVM's LLVM code uses an ordered comparison, for which NaN != x is false.
    "not_equal": comparison(np.not_equal, nan=False),
    "less": comparison(np.less),
    "less_equal": comparison(np.less_equal),
    "greater": comparison(np.greater),
    "greater_equal": comparison(np.greater_equal),
    "logical_and": combined(np.logical_and, 0),
    "logical_or": combined(np.logical_or, -1),
    "logical_xor": combined(np.logical_xor),
    "logical_not": logical_not,
    "bitwise_and": combined(np.bitwise_and, 0),
    "bitwise_or": combined(np.bitwise_or, -1),
    "bitwise_xor": combined(np.bitwise_xor),
    "bitwise_not": bitwise_not,
    "left_shift": shift(left=True),
    "right_shift": shift(left=False),
    "isnan": classified(np.isnan),
    "isinf": classified(np.isinf),
    "isfinite": classified(np.isfinite),
    "where": where,
}
