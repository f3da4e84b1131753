"""Kernels of elementwise operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .bounded import UNIT_ROUNDOFF, Bounded, integer, rounded, unwrapped

Attrs = Mapping[str, Any]
Kernel = Callable[[Sequence[Bounded], Attrs], "Bounded | tuple[Bounded, ...]"]


def image(f: Callable[[np.ndarray], np.ndarray], x: Bounded) -> tuple[np.ndarray, np.ndarray]:
    """Value of a monotone f at x, and how far f moves over [x - e, x + e]."""
    y = f(x.value)
    spread = np.maximum(np.abs(f(x.high) - y), np.abs(y - f(x.low)))
    # An exact operand moves nothing, not even where y is infinite.
    return y, np.where(x.error == 0, 0.0, spread)


def nan_undecided(y: np.ndarray, *operands: Bounded) -> np.ndarray:
    """Where y is NaN though no operand is, and an operand is inexact: others of its interval need
    not give NaN (the root of -1e-9 +- 1e-8, or 0 +- 1e-9 times infinity)."""
    nan = np.isnan(y)
    if not nan.any():
        return np.broadcast_to(nan, y.shape)
    given = np.logical_or.reduce([np.broadcast_to(np.isnan(x.value), y.shape) for x in operands])
    inexact = np.logical_or.reduce([np.broadcast_to(x.error > 0, y.shape) for x in operands])
    return nan & ~given & inexact


def monotone(f: Callable[[np.ndarray], np.ndarray], ulps: float, absolute: float = 0.0) -> Kernel:
    """A monotone function known to `ulps` roundings, plus `absolute` units roundoff of 1.0."""

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        (x,) = inputs
        y, spread = image(f, x)
        unknown = x.ambiguous | nan_undecided(y, x)
        return rounded(y, spread + absolute * UNIT_ROUNDOFF[x.dtype], unknown, x.dtype, ulps)

    return kernel


def selecting(f: Callable[[np.ndarray], np.ndarray]) -> Kernel:
    """A 1-Lipschitz function that rounds nothing (relu, abs, negative): errors pass unchanged.

    What it does to a NaN is left open by TVM where it is built on max or min: ambiguous.
    """

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        (x,) = inputs
        if not x.is_float:
            return integer(unwrapped(f, x.value), x.ambiguous, x.dtype)
        return Bounded(f(x.value), x.error, x.ambiguous | np.isnan(x.value), x.dtype)

    return kernel


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def leaky_relu(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    alpha = attrs["alpha"]
    y, spread = image(lambda v: np.where(v > 0, v, v * alpha), x)
    # alpha itself is rounded to the dtype, then the product is: two roundings.
    return rounded(y, spread, x.ambiguous | np.isnan(x.value), x.dtype, 2.0)


def clip(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    lo, hi = attrs["a_min"], attrs["a_max"]
    if not x.is_float:
        return integer(np.clip(x.value, int(lo), int(hi)), x.ambiguous, x.dtype)
    y, spread = image(lambda v: np.clip(v, lo, hi), x)
    # The bounds are rounded to the dtype.
    u = UNIT_ROUNDOFF[x.dtype]
    at_bound = (x.low <= lo) | (x.high >= hi)
    spread = spread + np.where(at_bound, u * max(abs(lo), abs(hi)), 0.0)
    return rounded(y, spread, x.ambiguous | np.isnan(x.value), x.dtype, 0.0)


def step(f: Callable[[np.ndarray], np.ndarray]) -> Kernel:
    """floor, ceil …: exact, ambiguous where the operand's interval crosses a jump."""

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        (x,) = inputs
        crossing = f(x.low) != f(x.high)
        return rounded(f(x.value), 0.0, x.ambiguous | (crossing & ~np.isnan(x.value)), x.dtype, 0.0)

    return kernel


def _joint(a: Bounded, b: Bounded) -> np.ndarray:
    return np.logical_or(a.ambiguous, b.ambiguous)


def add(inputs: Sequence[Bounded], attrs: Attrs, sign: int = 1) -> Bounded:
    a, b = inputs
    if not a.is_float:
        return integer(unwrapped(lambda p, q: p + sign * q, a.value, b.value), _joint(a, b), a.dtype)
    y = a.value + sign * b.value
    return rounded(y, a.error + b.error, _joint(a, b), a.dtype)


def subtract(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    return add(inputs, attrs, sign=-1)


def multiply(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    a, b = inputs
    if not a.is_float:
        return integer(unwrapped(np.multiply, a.value, b.value), _joint(a, b), a.dtype)
    y = a.value * b.value
    spread = np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error
    spread = np.where((a.error == 0) & (b.error == 0), 0.0, spread)
    return rounded(y, spread, _joint(a, b) | nan_undecided(y, a, b), a.dtype)


def integer_quotient(
    a: Bounded, b: Bounded, f: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Of integers the quotient rounded by f (floor or trunc), and where it is not known: for a divisor 0."""
    divisor = np.where(b.value == 0, 1, b.value)
    whole = a.value // divisor
    if f is np.trunc:
        whole = whole + ((whole < 0) & (whole * divisor != a.value))
    return whole, _joint(a, b) | (b.value == 0)


def divide(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Quotient; division as multiplication by a reciprocal costs two roundings more (TVM's LLVM
    code does so for a constant divisor). Ambiguous where the divisor's interval holds zero. Of integers it
    goes towards zero, as in C."""
    a, b = inputs
    if not a.is_float:
        return integer(*integer_quotient(a, b, np.trunc), a.dtype)
    y = a.value / b.value
    nearest = np.abs(b.value) - b.error
    spread = (a.error + np.abs(y) * b.error) / nearest
    around_zero = (nearest <= 0) & (b.error > 0)
    spread = np.where((a.error == 0) & (b.error == 0), 0.0, spread)
    unknown = _joint(a, b) | around_zero | nan_undecided(y, a, b)
    return rounded(y, spread, unknown, a.dtype, 3.0)


def _choose(f: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Kernel:
    """maximum, minimum: exact; the interval's ends map to the result's ends. NaN is ambiguous."""

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        a, b = inputs
        y = f(a.value, b.value)
        if not a.is_float:
            return integer(y, _joint(a, b), a.dtype)
        spread = np.maximum(np.abs(f(a.high, b.high) - y), np.abs(y - f(a.low, b.low)))
        spread = np.where((a.error == 0) & (b.error == 0), 0.0, spread)
        nan = np.isnan(a.value) | np.isnan(b.value)
        return rounded(y, spread, _joint(a, b) | nan, a.dtype, 0.0)

    return kernel


KERNELS: dict[str, Kernel] = {
    "nn.relu": selecting(lambda v: np.maximum(v, 0)),
    "nn.leaky_relu": leaky_relu,
    "clip": clip,
    "sigmoid": monotone(_sigmoid, 6.0),
    "tanh": monotone(np.tanh, 2.0, absolute=8.0),
    "exp": monotone(np.exp, 4.0),
    "log": monotone(np.log, 4.0),
    "sqrt": monotone(np.sqrt, 1.0),
    "abs": selecting(np.abs),
    "negative": selecting(np.negative),
    "floor": step(np.floor),
    "ceil": step(np.ceil),
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "maximum": _choose(np.maximum),
    "minimum": _choose(np.minimum),
}
