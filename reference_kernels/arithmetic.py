"""Kernels of further arithmetic: power, rounded quotients, remainders, atan2, log_add_exp."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np

from .bounded import LARGEST, SMALLEST_NORMAL, UNIT_ROUNDOFF, Bounded, integer, rounded
from .elementwise import Attrs, Kernel, divide, integer_quotient, nan_undecided, step


def corners(
    f: Callable[[np.ndarray, np.ndarray], np.ndarray], a: Bounded, b: Bounded
) -> tuple[np.ndarray, np.ndarray]:
    """Returns f(a, b), and how far f moves from it over the box of both operands' intervals.

    f must take its extremes at the corners of the box.
    """
    y = f(a.value, b.value)
    moved = [np.abs(f(p, q) - y) for p, q in itertools.product((a.low, a.high), (b.low, b.high))]
    spread = np.maximum.reduce(moved)
    return y, np.where((a.error == 0) & (b.error == 0), 0.0, spread)


def power(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes pow of IEEE 754-2019, section 9.2.1, granted 32 units roundoff.

    pow is monotone in either operand for a positive base, and for an exact whole exponent on either
    side of zero. The result is ambiguous where the base may be zero or negative and an operand has
    an error, unless the exponent is whole; for a negative whole exponent, where the base's interval
    contains zero.
    """
    a, b = inputs
    y, spread = corners(np.power, a, b)
    whole = (b.error == 0) & (b.value == np.rint(b.value))
    around = (a.low <= 0) & (a.high >= 0) & (a.error > 0)
    # An even power has its minimum, 0, inside an interval around zero.
    spread = np.where(around & whole & (b.value > 0), np.maximum(spread, np.abs(y)), spread)
    unsure = (a.low <= 0) & ~whole & ((a.error > 0) | (b.error > 0))
    unsure |= around & whole & (b.value < 0)
    # NaN ** 0 and 1 ** NaN are 1 by pow, and NaN by exp(b * log(a)).
    unsure |= (np.isnan(a.value) | np.isnan(b.value)) & ~np.isnan(y)
    unsure |= np.isinf(b.value) & (np.abs(a.value) == 1)
    unknown = a.ambiguous | b.ambiguous | unsure | nan_undecided(y, a, b)
    return rounded(y, spread, unknown, a.dtype, 32.0)


# --- division --------------------------------------------------------------------------------


def _whole(
    inputs: Sequence[Bounded], f: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the quotient rounded by f (np.floor or np.trunc), and where it is ambiguous."""
    a, b = inputs
    if a.is_float:
        joint = np.logical_or(a.ambiguous, b.ambiguous)
        q = divide(inputs, {})
        # Zero divided by a nonzero number is exactly zero, so no rounding crosses a whole number.
        zero = (a.value == 0) & (a.error == 0) & (np.abs(b.value) > b.error)
        q = Bounded(q.value, np.where(zero, 0.0, q.error), q.ambiguous & ~(zero & ~joint), q.dtype)
        y = step(f)([q], {})
        assert isinstance(y, Bounded)
        return y.value, y.ambiguous
    return integer_quotient(a, b, f)


def quotient(f: Callable[[np.ndarray], np.ndarray]) -> Kernel:
    """Builds the kernel of floor_divide or trunc_divide; f is np.floor or np.trunc.

    The result is ambiguous for an integer divisor of zero, where the quotient of floats may be on
    either side of a whole number, and for an infinite dividend (implementations by fmod give NaN).
    """

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        q, unknown = _whole(inputs, f)
        dtype = inputs[0].dtype
        if not inputs[0].is_float:
            return integer(q, unknown, dtype)
        return rounded(q, 0.0, unknown | np.isinf(inputs[0].value), dtype, 0.0)

    return kernel


def remainder(f: Callable[[np.ndarray], np.ndarray]) -> Kernel:
    """Builds the kernel of a - b * q with the rounded quotient q of `quotient`.

    An implementation may call fmod or compute the formula as written.
    """

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        a, b = inputs
        q, unknown = _whole(inputs, f)
        if not a.is_float:
            return integer(a.value - q * b.value, unknown, a.dtype)
        r = (np.fmod if f is np.trunc else np.mod)(a.value, b.value)
        u = UNIT_ROUNDOFF[a.dtype]
        moved = a.error + np.abs(q) * b.error + u * (np.abs(a.value) + np.abs(r) + a.error)
        moved = np.where(np.isfinite(r) & np.isfinite(q), moved, 0.0)
        # The formula as written gives NaN for zero times infinity, and infinity for a quotient
        # beyond the dtype's largest number; fmod does not.
        written = np.isinf(b.value) | (np.abs(q) > LARGEST[a.dtype])
        unknown = unknown | (written & ~np.isnan(r)) | nan_undecided(r, a, b)
        return rounded(r, moved, unknown, a.dtype)

    return kernel


# --- functions of two ------------------------------------------------------------------------


def atan2(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes the angle of (x, y), granted 6 ulp.

    Its extremes are at the corners of the operands' box, unless the box contains the origin or
    meets the negative half of the x axis. There the result is ambiguous, even for an exact zero y,
    whose sign is unknown.
    """
    y, x = inputs
    angle, spread = corners(np.arctan2, y, x)
    cut = (y.low <= 0) & (y.high >= 0) & (x.low <= 0)
    unknown = y.ambiguous | x.ambiguous | cut | nan_undecided(angle, y, x)
    return rounded(angle, spread, unknown, y.dtype, 12.0)


def log_add_exp(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes log(exp(a) + exp(b)).

    The roundings of the exponentials and of the sum are granted 6 units roundoff of 1.0. TVM
    computes the exponentials as written: where one overflows or both underflow, the result is
    ambiguous.
    """
    a, b = inputs
    u, tiny = UNIT_ROUNDOFF[a.dtype], SMALLEST_NORMAL[a.dtype]
    y, spread = corners(np.logaddexp, a, b)
    largest, least = np.maximum(a.high, b.high), np.maximum(a.low, b.low)
    outside = (2 * np.exp(largest) * (1 + 4 * u) > LARGEST[a.dtype]) | (np.exp(least) < 2 * tiny)
    # An exponential that is subnormal may be flushed to zero.
    lost = np.where(np.isfinite(least), 2 * tiny / np.exp(least), 0.0)
    # An infinite operand gives an infinite result, however it is computed.
    infinite = np.isinf(y) & (np.isinf(a.value) | np.isinf(b.value))
    unknown = a.ambiguous | b.ambiguous | (outside & ~infinite) | nan_undecided(y, a, b)
    return rounded(y, spread + 6 * u + lost, unknown | (np.isinf(y) & ~infinite), a.dtype, 4.0)


def fixed_point_multiply(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes x * multiplier * 2^(shift - 31), rounded to the nearest, halves upwards.

    TVM's definition is tir.q_multiply_shift.
    """
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
