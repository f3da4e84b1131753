"""Kernels: arithmetic beyond the commonest."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from .bounded import LARGEST, SMALLEST_NORMAL, UNIT_ROUNDOFF, Bounded, integer, rounded
from .elementwise import Attrs, Kernel, divide, integer_quotient, nan_undecided, step


def corners(
    f: Callable[[np.ndarray, np.ndarray], np.ndarray], a: Bounded, b: Bounded
) -> tuple[np.ndarray, np.ndarray]:
    """Value of f, and how far it moves over the box of both intervals, when it takes its extremes at
    the corners."""
    y = f(a.value, b.value)
    moved = [np.abs(f(p, q) - y) for p, q in itertools.product((a.low, a.high), (b.low, b.high))]
    spread = np.maximum.reduce(moved)
    return y, np.where((a.error == 0) & (b.error == 0), 0.0, spread)


def power(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """pow of IEEE 754-2019, 9.2.1. Monotone in either operand for a positive base, and for an exact
    whole exponent on either side of zero; ambiguous for other intervals that reach below zero."""
    a, b = inputs
    y, spread = corners(np.power, a, b)
    whole = (b.error == 0) & (b.value == np.rint(b.value))
    around = (a.low <= 0) & (a.high >= 0) & (a.error > 0)
    # An even power has its lowest value inside.
    spread = np.where(around & whole & (b.value > 0), np.maximum(spread, np.abs(y)), spread)
    unsure = (a.low <= 0) & ~whole & ((a.error > 0) | (b.error > 0))
    unsure |= around & whole & (b.value < 0)
    # pow makes 1 of NaN ** 0 and 1 ** NaN, exp(b * log(a)) makes NaN.
    unsure |= (np.isnan(a.value) | np.isnan(b.value)) & ~np.isnan(y)
    unsure |= np.isinf(b.value) & (np.abs(a.value) == 1)
    unknown = a.ambiguous | b.ambiguous | unsure | nan_undecided(y, a, b)
    return rounded(y, spread, unknown, a.dtype, 32.0)


# --- division --------------------------------------------------------------------------------


def _whole(
    inputs: Sequence[Bounded], f: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The quotient rounded by f (floor or trunc), and where it is not known."""
    a, b = inputs
    if a.is_float:
        joint = np.logical_or(a.ambiguous, b.ambiguous)
        q = divide(inputs, {})
        # Of zero it is zero, with no rounding that could cross it.
        zero = (a.value == 0) & (a.error == 0) & (np.abs(b.value) > b.error)
        q = Bounded(q.value, np.where(zero, 0.0, q.error), q.ambiguous & ~(zero & ~joint), q.dtype)
        y = step(f)([q], {})
        assert isinstance(y, Bounded)
        return y.value, y.ambiguous
    return integer_quotient(a, b, f)


def quotient(f: Callable[[np.ndarray], np.ndarray]) -> Kernel:
    """floor_divide, trunc_divide. Ambiguous for a zero divisor of integers, where the quotient of floats
    may be on either side of a whole number, and for infinity, of which some make NaN (fmod does)."""

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        q, unknown = _whole(inputs, f)
        dtype = inputs[0].dtype
        if not inputs[0].is_float:
            return integer(q, unknown, dtype)
        return rounded(q, 0.0, unknown | np.isinf(inputs[0].value), dtype, 0.0)

    return kernel


def remainder(f: Callable[[np.ndarray], np.ndarray]) -> Kernel:
    """a - b * q with the quotient q of `quotient`, by fmod or as written."""

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        a, b = inputs
        q, unknown = _whole(inputs, f)
        if not a.is_float:
            return integer(a.value - q * b.value, unknown, a.dtype)
        r = (np.fmod if f is np.trunc else np.mod)(a.value, b.value)
        u = UNIT_ROUNDOFF[a.dtype]
        moved = a.error + np.abs(q) * b.error + u * (np.abs(a.value) + np.abs(r) + a.error)
        moved = np.where(np.isfinite(r) & np.isfinite(q), moved, 0.0)
        # As written, zero times infinity is NaN, and a quotient beyond the dtype is infinite.
        written = np.isinf(b.value) | (np.abs(q) > LARGEST[a.dtype])
        unknown = unknown | (written & ~np.isnan(r)) | nan_undecided(r, a, b)
        return rounded(r, moved, unknown, a.dtype)

    return kernel


# --- functions of two ------------------------------------------------------------------------


def atan2(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """The angle of (x, y): extreme at a box's corners, unless it holds the origin or meets the negative
    half of the x axis: ambiguous, as is a zero of unknown sign there. To 6 ulp."""
    y, x = inputs
    angle, spread = corners(np.arctan2, y, x)
    cut = (y.low <= 0) & (y.high >= 0) & (x.low <= 0)
    unknown = y.ambiguous | x.ambiguous | cut | nan_undecided(angle, y, x)
    return rounded(angle, spread, unknown, y.dtype, 12.0)


def log_add_exp(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """log(exp(a) + exp(b)), each of the exponentials and the sum rounded: 6 units of 1.0.

    TVM takes the exponentials as they stand: ambiguous where either overflows or both underflow.
    """
    a, b = inputs
    u, tiny = UNIT_ROUNDOFF[a.dtype], SMALLEST_NORMAL[a.dtype]
    y, spread = corners(np.logaddexp, a, b)
    largest, least = np.maximum(a.high, b.high), np.maximum(a.low, b.low)
    outside = (2 * np.exp(largest) * (1 + 4 * u) > LARGEST[a.dtype]) | (np.exp(least) < 2 * tiny)
    # What of the smaller exponential may be flushed to zero.
    lost = np.where(np.isfinite(least), 2 * tiny / np.exp(least), 0.0)
    # Infinity is what it is however it is computed.
    infinite = np.isinf(y) & (np.isinf(a.value) | np.isinf(b.value))
    unknown = a.ambiguous | b.ambiguous | (outside & ~infinite) | nan_undecided(y, a, b)
    return rounded(y, spread + 6 * u + lost, unknown | (np.isinf(y) & ~infinite), a.dtype, 4.0)


def fixed_point_multiply(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """x * multiplier * 2^(shift - 31), rounded to the nearest, halves upwards (tir.q_multiply_shift)."""
    (x,) = inputs
    right = 31 - attrs["shift"]
    product = x.value * attrs["multiplier"]
    return integer((product + (1 << (right - 1))) >> right, x.ambiguous, x.dtype)


KERNELS: dict[str, Kernel] = {
    "power": power,
    "floor_divide": quotient(np.floor),
    "trunc_divide": quotient(np.trunc),
    "mod": remainder(np.trunc),
    "floor_mod": remainder(np.floor),
    "trunc_mod": remainder(np.trunc),
    "atan2": atan2,
    "log_add_exp": log_add_exp,
    "fixed_point_multiply": fixed_point_multiply,
}
