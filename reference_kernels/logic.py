"""Kernels: comparisons, logic, bits, and selection by a condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .bounded import Bounded, integer
from .elementwise import Attrs, Kernel

Compare = Callable[[np.ndarray, np.ndarray], np.ndarray]


def boolean(value: Any, ambiguous: Any) -> Bounded:
    """A result of dtype bool."""
    value = np.asarray(value, bool)
    flags = np.array(np.broadcast_to(np.asarray(ambiguous, bool), value.shape))
    return Bounded(value, np.zeros(value.shape), flags, "bool")


def comparison(f: Compare, nan: bool = True) -> Kernel:
    """Ambiguous where the operands' intervals overlap without both being exact.

    IEEE 754: false with a NaN, but for not_equal; with nan=False, ambiguous there.
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
    """isnan, isinf, isfinite: what is known to within a bound is known to be a number."""

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        (x,) = inputs
        return boolean(f(x.value), x.ambiguous)

    return kernel


def combined(f: Compare, absorbing: int | None = None) -> Kernel:
    """Bits or truth values of two operands. absorbing: the operand beside which the other does not
    matter: 0, or all bits set (-1)."""

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
    """Ambiguous for counts outside 0 .. bits - 1, and where the result does not fit."""

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        x, count = inputs
        bits = np.iinfo(x.dtype).bits
        outside = (count.value < 0) | (count.value >= bits)
        by = np.clip(count.value, 0, bits - 1)
        unknown = x.ambiguous | count.ambiguous | outside
        if not left:
            return integer(x.value >> by, unknown, x.dtype)
        # An int64 may wrap around: estimated in float64.
        large = np.abs(x.value.astype(np.float64)) * 2.0**by >= 2.0 ** (bits - 1 if x.dtype != "uint8" else 8)
        return integer(np.where(large, 0, x.value) << by, unknown | large, x.dtype)

    return kernel


def where(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """The value chosen, with its bound; the other's does not matter."""
    condition, a, b = inputs

    def pick(f: Callable[[Bounded], np.ndarray]) -> np.ndarray:
        return np.where(condition.value, f(a), f(b))

    ambiguous = pick(lambda x: x.ambiguous) | condition.ambiguous
    return Bounded(pick(lambda x: x.value), pick(lambda x: x.error), ambiguous, a.dtype)


KERNELS: dict[str, Kernel] = {
    "equal": comparison(np.equal),
    # TVM's LLVM code finds NaN equal to everything here (an ordered comparison).
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
