"""Kernels of further elementwise functions of one tensor: trigonometry, roots, activations.

`ulps` here counts units roundoff u; one ulp of the specifications that the records cite is 2 u.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from .bounded import LARGEST, SMALLEST_NORMAL, UNIT_ROUNDOFF, Bounded, integer, rounded
from .elementwise import Attrs, Kernel, image, monotone, nan_undecided, selecting, step, underflow

Function = Callable[[np.ndarray], np.ndarray]

erf: Function = np.vectorize(math.erf, otypes=[np.float64])
_erfc: Function = np.vectorize(math.erfc, otypes=[np.float64])


def valley(
    f: Function,
    bottom: float,
    ulps: float,
    absolute: Callable[[np.ndarray, str], np.ndarray | float] = lambda v, dtype: 0.0,
) -> Kernel:
    """Builds the kernel of a function that decreases up to x = `bottom` and increases from there.

    ulps: the function's own error in units roundoff of the result. absolute: gives an absolute
    error in addition, from the operand's values and its dtype.
    """
    (lowest,) = f(np.array([bottom]))

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        (x,) = inputs
        y, spread = image(f, x)
        within = (x.low < bottom) & (x.high > bottom)
        spread = np.where(within & (x.error > 0), np.maximum(spread, np.abs(y - lowest)), spread)
        stray = np.where(np.isfinite(x.value), absolute(x.value, x.dtype), 0.0)
        unknown = x.ambiguous | nan_undecided(y, x)
        return rounded(y, spread + stray, unknown, x.dtype, ulps)

    return kernel


def _undecided_below(kernel: Kernel) -> Kernel:
    """Wraps a kernel so that the result for minus infinity is ambiguous.

    The formula as written gives NaN there (infinity times zero), its limit is 0.
    """

    def undecided(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        y = kernel(inputs, attrs)
        assert isinstance(y, Bounded)
        return rounded(y.value, y.error, y.ambiguous | np.isneginf(inputs[0].value), y.dtype, 0.0)

    return undecided


def wave(f: Function, derivative: Function) -> Kernel:
    """Builds the kernel of sin or cos, granted 4 ulp.

    An operand error e propagates as |f'| e + e^2 / 2 (Taylor), but at most as e (the function is
    1-Lipschitz) and at most as 2.
    """

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        (x,) = inputs
        e = x.error
        moved = np.minimum(np.abs(derivative(x.value)) * e + e * e / 2, np.minimum(e, 2.0))
        moved = np.where(e == 0, 0.0, moved)
        return rounded(f(x.value), moved, x.ambiguous, x.dtype, 8.0)

    return kernel


def tan(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes tan, granted 5 ulp; ambiguous where the operand's interval contains a pole.

    tan increases between two poles, so the ends of the interval bound the result.
    """
    (x,) = inputs
    branches = [np.floor(v / np.pi + 0.5) for v in (x.low, x.high)]
    pole = (branches[0] != branches[1]) & (x.error > 0)
    y, spread = image(np.tan, x)
    return rounded(y, spread, x.ambiguous | pole, x.dtype, 10.0)


def _exponentials(kernel: Kernel) -> Kernel:
    """Wraps the kernel of sinh or cosh so that results above half the largest number are ambiguous.

    (exp(x) +- exp(-x)) / 2 overflows where exp(x) does, although the result still fits.
    """

    def undecided(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        y = kernel(inputs, attrs)
        assert isinstance(y, Bounded)
        large = np.isfinite(y.value) & (2 * (np.abs(y.value) + y.error) > LARGEST[y.dtype])
        return Bounded(y.value, y.error, y.ambiguous | large, y.dtype)

    return undecided


def round_(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Rounds to the nearest integer; ambiguous where the interval contains a half."""
    (x,) = inputs
    half = np.ceil(x.low - 0.5) != np.floor(x.high + 0.5)
    return rounded(np.rint(x.value), 0.0, x.ambiguous | (half & ~np.isnan(x.value)), x.dtype, 0.0)


def sign(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Returns -1, 0 or 1. NaN operands are ambiguous, since TVM returns 0 for them."""
    (x,) = inputs
    if not x.is_float:
        return integer(np.sign(x.value), x.ambiguous, x.dtype)
    y = step(np.sign)(inputs, attrs)
    assert isinstance(y, Bounded)
    return Bounded(y.value, y.error, y.ambiguous | np.isnan(x.value), y.dtype)


def square(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    if not x.is_float:
        # From 2**31 on, the square of an int64 may wrap around here.
        return integer(x.value * x.value, x.ambiguous | (np.abs(x.value) >= 2**31), x.dtype)
    y = valley(np.square, 0.0, 1.0)(inputs, attrs)
    assert isinstance(y, Bounded)
    return y


# --- activations -----------------------------------------------------------------------------


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * _erfc(-x / np.sqrt(2.0))


def _gelu_error(x: np.ndarray, dtype: str) -> np.ndarray:
    """Returns the absolute error of gelu: |x| / 2 times the error of 1 + erf(z), z = x / sqrt(2).

    That error is 16 ulp of erf(z), two roundings of z (|z erf'(z)| < 1/2), and the rounding of the
    sum.
    """
    return UNIT_ROUNDOFF[dtype] * np.abs(x) / 2 * (32 * np.abs(erf(x / np.sqrt(2.0))) + 4)


def _tanh_operand(x: np.ndarray) -> np.ndarray:
    return np.sqrt(2.0 / np.pi) * x * (1 + 0.044715 * x * x)


def _gelu_tanh(x: np.ndarray) -> np.ndarray:
    # (1 + tanh(z)) / 2 = 1 / (1 + exp(-2 z))
    return x / (1 + np.exp(-2 * _tanh_operand(x)))


def _gelu_tanh_error(x: np.ndarray, dtype: str) -> np.ndarray:
    """Returns the absolute error of gelu_tanh: |x| / 2 times the error of 1 + tanh(z).

    In units roundoff of 1.0, that error is 16.5: 10 for tanh (5 ulp), 4 for eight roundings of its
    operand (|z tanh'(z)| < 1/2), 2 for the sum, and 1/2 for the underflow of the operand's square.
    """
    return UNIT_ROUNDOFF[dtype] * np.abs(x) / 2 * 16.5


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def _silu_error(x: np.ndarray, dtype: str) -> np.ndarray:
    """Returns the absolute error of silu: |x| times what the sigmoid may lose to underflow."""
    return np.abs(x) * underflow(dtype)


def _selu(x: np.ndarray) -> np.ndarray:
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0)))


def selu(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes scale * (max(0, x) + min(0, alpha * (exp(x) - 1))); NaN is ambiguous (max, min)."""
    y = monotone(_selu, 8.0, absolute=8.0)(inputs, attrs)
    assert isinstance(y, Bounded)
    return Bounded(y.value, y.error, y.ambiguous | np.isnan(y.value), y.dtype)


def softplus(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes log(1 + exp(beta x)) / beta, or x itself where beta x is above the threshold.

    Where beta x may be on either side of the threshold, both results are right. TVM computes
    exp(beta x) as written: where it overflows below the threshold (float16), the result is
    ambiguous.
    """
    (x,) = inputs
    u, beta, threshold = UNIT_ROUNDOFF[x.dtype], attrs["beta"], attrs["threshold"]

    def f(v: np.ndarray) -> np.ndarray:
        return np.where(v * beta > threshold, v, np.logaddexp(0.0, v * beta) / beta)

    y, spread = image(f, x)
    z = x.value * beta
    # beta, the product and the threshold are rounded.
    stray = 2 * u * np.abs(z) + u * threshold
    across = np.abs(z - threshold) <= x.error * beta + stray
    jump = np.where(across, np.logaddexp(0.0, -threshold) / beta, 0.0)
    linear = z - x.error * beta - stray > threshold
    slope = 1 / (1 + np.exp(-z - x.error * beta))
    # exp is granted 4 roundings, the sum 1: 5 units roundoff of 1.0.
    moved = (5 * u + slope * stray) / beta + SMALLEST_NORMAL[x.dtype] / beta
    error = np.where(np.isfinite(x.value), spread + jump + np.where(linear, 0.0, moved), 0.0)
    overflow = ~linear & (np.exp(z + x.error * beta + stray) > LARGEST[x.dtype])
    return rounded(y, error, x.ambiguous | nan_undecided(y, x) | overflow, x.dtype, 8.0)


def prelu(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Returns x where it is positive, else alpha * x, with alpha along `axis`.

    NaN operands are ambiguous, since a comparison with NaN may select either.
    """
    x, alpha = inputs
    shape = [1] * len(x.shape)
    shape[attrs["axis"] % len(shape)] = -1
    alpha = alpha.map(lambda v: v.reshape(shape))
    y = np.where(x.value > 0, x.value, x.value * alpha.value)
    steepest = np.abs(alpha.value) + alpha.error
    slope = np.where(x.low > 0, 1.0, np.where(x.high <= 0, steepest, np.maximum(steepest, 1.0)))
    # (alpha + d) (x + e) - alpha x = (alpha + d) e + d x
    moved = np.where(x.error == 0, 0.0, slope * x.error)
    moved = moved + np.where((x.value > 0) | (alpha.error == 0), 0.0, alpha.error * np.abs(x.value))
    unknown = x.ambiguous | np.isnan(x.value) | (alpha.ambiguous & ~(x.low > 0))
    return rounded(y, moved, unknown | nan_undecided(y, x, alpha), x.dtype, 1.0)


KERNELS: dict[str, Kernel] = {
    "erf": monotone(erf, 32.0),
    "rsqrt": monotone(lambda v: 1 / np.sqrt(v), 4.0),
    "round": round_,
    "trunc": step(np.trunc),
    "sign": sign,
    "sin": wave(np.sin, np.cos),
    "cos": wave(np.cos, np.sin),
    "tan": tan,
    "asin": monotone(np.arcsin, 8.0),
    "acos": monotone(np.arccos, 8.0),
    "atan": monotone(np.arctan, 10.0),
    "sinh": _exponentials(monotone(np.sinh, 8.0, absolute=6.0)),
    "cosh": _exponentials(valley(np.cosh, 0.0, 8.0)),
    "asinh": monotone(np.arcsinh, 8.0),
    "acosh": monotone(np.arccosh, 8.0),
    "atanh": monotone(np.arctanh, 10.0, absolute=6.0),
    "log2": monotone(np.log2, 6.0),
    "log10": monotone(np.log10, 6.0),
    "square": square,
    "nn.gelu": _undecided_below(valley(_gelu, -0.7517915246935645, 4.0, _gelu_error)),
    "nn.gelu_tanh": _undecided_below(valley(_gelu_tanh, -0.7524614220710163, 4.0, _gelu_tanh_error)),
    "nn.silu": _undecided_below(valley(_silu, -1.2784645427610738, 8.0, _silu_error)),
    "nn.selu": selu,
    "nn.softplus": softplus,
    "nn.relu6": selecting(lambda v: np.clip(v, 0, 6)),
    "nn.prelu": prelu,
}
