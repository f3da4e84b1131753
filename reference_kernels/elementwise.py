"""Kernels of the commonest elementwise operators, and helpers that other kernels share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .bounded import SMALLEST_NORMAL, UNIT_ROUNDOFF, Bounded, integer, rounded, unwrapped

#: The attributes of a node, by name.
Attrs = Mapping[str, Any]
#: Computes a node from its operands and attributes: one result, or a tuple for several outputs.
Kernel = Callable[[Sequence[Bounded], Attrs], "Bounded | tuple[Bounded, ...]"]


def image(f: Callable[[np.ndarray], np.ndarray], x: Bounded) -> tuple[np.ndarray, np.ndarray]:
    """Returns f(x) of a monotone f, and how far f moves from it over [x - error, x + error]."""
    y = f(x.value)
    spread = np.maximum(np.abs(f(x.high) - y), np.abs(y - f(x.low)))
    # For an exact operand the spread is 0, also where y is infinite and the difference is NaN.
    return y, np.where(x.error == 0, 0.0, spread)


def nan_undecided(y: np.ndarray, *operands: Bounded) -> np.ndarray:
    """Returns where y is NaN although no operand is NaN, and an operand has an error.

    Other values of that operand's interval need not give NaN: the root of -1e-9 +- 1e-8, or
    0 +- 1e-9 times infinity.
    """
    nan = np.isnan(y)
    if not nan.any():
        return np.broadcast_to(nan, y.shape)
    given = np.logical_or.reduce([np.broadcast_to(np.isnan(x.value), y.shape) for x in operands])
    inexact = np.logical_or.reduce([np.broadcast_to(x.error > 0, y.shape) for x in operands])
    return nan & ~given & inexact


def underflow(dtype: str) -> float:
    """Returns the largest exponential that may be flushed to zero.

    An exponential is commonly computed as p * 2**(n - 1) * 2, lest 2**n overflows (oneDNN's). The
    factor is subnormal for results below twice the smallest normal number. Those of float16 are
    computed in float32.
    """
    return SMALLEST_NORMAL[dtype] * (1.0 if dtype == "float16" else 2.0)


def monotone(
    f: Callable[[np.ndarray], np.ndarray], ulps: float, absolute: float = 0.0, of_exponential: bool = False
) -> Kernel:
    """Builds the kernel of a monotone function.

    The function's own error is `ulps` units roundoff of the result, plus `absolute` units roundoff
    of 1.0. of_exponential: True if a small result is an exponential (see `underflow`).
    """

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        (x,) = inputs
        y, spread = image(f, x)
        unknown = x.ambiguous | nan_undecided(y, x)
        lost = underflow(x.dtype) - SMALLEST_NORMAL[x.dtype] if of_exponential else 0.0
        return rounded(y, spread + absolute * UNIT_ROUNDOFF[x.dtype] + lost, unknown, x.dtype, ulps)

    return kernel


def selecting(f: Callable[[np.ndarray], np.ndarray]) -> Kernel:
    """Builds the kernel of a 1-Lipschitz function that rounds nothing (relu, abs, negative).

    The operand's error is the result's. NaN operands give ambiguous results, since TVM does not
    specify what max and min return for NaN.
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
    # Two roundings: alpha is rounded to the dtype, then the product is.
    return rounded(y, spread, x.ambiguous | np.isnan(x.value), x.dtype, 2.0)


def clip(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    lo, hi = attrs["a_min"], attrs["a_max"]
    if not x.is_float:
        return integer(np.clip(x.value, int(lo), int(hi)), x.ambiguous, x.dtype)
    y, spread = image(lambda v: np.clip(v, lo, hi), x)
    # lo and hi are rounded to the dtype.
    u = UNIT_ROUNDOFF[x.dtype]
    at_bound = (x.low <= lo) | (x.high >= hi)
    spread = spread + np.where(at_bound, u * max(abs(lo), abs(hi)), 0.0)
    return rounded(y, spread, x.ambiguous | np.isnan(x.value), x.dtype, 0.0)


def step(f: Callable[[np.ndarray], np.ndarray]) -> Kernel:
    """Builds the kernel of a step function (floor, ceil, trunc ...).

    The result is exact; it is ambiguous where the operand's interval crosses a jump.
    """

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
    """Returns the quotient of two integer tensors, rounded by f, and where it is ambiguous.

    f is np.floor or np.trunc. The quotient is ambiguous where an operand is, or the divisor is 0.
    """
    divisor = np.where(b.value == 0, 1, b.value)
    whole = a.value // divisor
    if f is np.trunc:
        whole = whole + ((whole < 0) & (whole * divisor != a.value))
    return whole, _joint(a, b) | (b.value == 0)


def divide(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Divides; floats with three roundings, integers towards zero, as in C.

    TVM's LLVM code multiplies by the reciprocal of a constant divisor, which costs two roundings
    more than a division. The result is ambiguous where the divisor's interval contains zero.
    """
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
    """Builds the kernel of maximum or minimum.

    f rounds nothing, and it maps the ends of the operands' intervals to the ends of the result's.
    NaN operands give ambiguous results.
    """

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
    "sigmoid": monotone(_sigmoid, 6.0, of_exponential=True),
    "tanh": monotone(np.tanh, 2.0, absolute=8.0),
    "exp": monotone(np.exp, 4.0, of_exponential=True),
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
