"""Kernels of reductions to an index, a truth value or a variance, of logsumexp, and of scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .bounded import (
    LARGEST,
    UNIT_ROUNDOFF,
    Bounded,
    accumulated,
    accumulator,
    gamma,
    integer,
    rounded,
    unwrapped,
)
from .elementwise import Attrs, Kernel
from .reduction import axes_of, multiplied


def _arg(largest: bool) -> Kernel:
    """Builds the kernel of argmax or argmin.

    The result is ambiguous where rounding decides which of several elements is the extreme one, and
    for NaN. It is also ambiguous where no element surpasses the value from which TVM's reduction
    starts (the dtype's lowest number for argmax, its largest for argmin): TVM returns -1 there.
    """

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        (x,) = inputs
        axes = axes_of(attrs, len(x.shape))
        kept = tuple(a for a in range(len(x.shape)) if a not in axes)
        n = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))

        def rows(v: np.ndarray) -> np.ndarray:
            return np.transpose(v, kept + axes).reshape([x.shape[a] for a in kept] + [n])

        # Integers are reversed as -1 - x, which does not overflow.
        flipped = -x.value if x.is_float else ~x.value
        value, error, ambiguous = rows(x.value if largest else flipped), rows(x.error), rows(x.ambiguous)
        if attrs["select_last_index"]:
            index = n - 1 - np.argmax(value[..., ::-1], axis=-1)
        else:
            index = np.argmax(value, axis=-1)
        unknown = np.zeros(index.shape, bool)
        if n > 1:
            unknown = np.any(ambiguous | np.isnan(value), axis=-1)
        if n > 1 and x.is_float:
            error = np.where(error > 0, error, 0.0)
            able = value + error >= np.max(value - error, axis=-1, keepdims=True)
            # Among exact elements that are equal, `select_last_index` decides.
            unknown = unknown | ((able.sum(axis=-1) > 1) & np.any(able & (error > 0), axis=-1))
        start = -LARGEST[x.dtype] if x.is_float else _start(x.dtype, largest)
        unknown = unknown | (np.max(value, axis=-1) <= start)
        shape = [1 if a in axes else d for a, d in enumerate(x.shape)]
        if attrs["keepdims"]:
            index, unknown = index.reshape(shape), unknown.reshape(shape)
        return integer(index, unknown, attrs["dtype"])

    return kernel


def _start(dtype: str, largest: bool) -> int:
    return int(np.iinfo(dtype).min if largest else ~np.iinfo(dtype).max)


def _truth(deciding: bool) -> Kernel:
    """Builds the kernel of all (`deciding` is False) or any (`deciding` is True).

    One exact element that equals `deciding` determines the result.
    """

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        (x,) = inputs
        axes, keep = axes_of(attrs, len(x.shape)), attrs["keepdims"]

        def some(v: np.ndarray) -> np.ndarray:
            return np.asarray(np.any(v, axis=axes, keepdims=keep))

        sets = x.value.astype(bool) == deciding
        decided = some(sets & ~x.ambiguous)
        value = some(sets) == deciding
        return Bounded(value, np.zeros(value.shape), some(x.ambiguous) & ~decided, "bool")

    return kernel


def _variance(inputs: Sequence[Bounded], attrs: Attrs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns value, error and ambiguity of the variance of n elements, before it is rounded.

    The roundings are bounded by the larger error of two ways to compute it. In two passes,
    mean((x - mean(x))^2) is off by 2 * mean|x - mean(x)| * d + d^2, d being the error of the mean,
    plus gamma(n + 5) of the result. In one pass, each term of mean(x^2) - mean(x)^2 is off by
    gamma(n + 5) of itself. Errors e of the elements add 2 * mean(|x - mean(x)| * e) + mean(e^2),
    since the variance is quadratic in x.
    """
    (x,) = inputs
    axes, keep = axes_of(attrs, len(x.shape)), attrs["keepdims"]
    n = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    divisor = n - 1 if attrs["unbiased"] else n

    def mean(v: np.ndarray, keepdims: bool = keep) -> Any:
        return np.sum(v, axis=axes, keepdims=keepdims) / n

    sums = accumulator(x.dtype)
    relative, tiny = gamma(n + 5, sums.u), sums.lost
    e = np.where(x.ambiguous, 0.0, x.error)
    deviation = np.abs(x.value - mean(x.value, True))
    value = mean(deviation**2)
    size = np.abs(x.value) + e
    off = relative * mean(size) + n * tiny
    two_passes = 2 * mean(deviation + e) * off + off**2 + relative * mean((deviation + e) ** 2)
    one_pass = relative * (mean(size**2) + 2 * mean(size) ** 2)
    error = np.maximum(two_passes, one_pass) + 2 * mean(deviation * e) + mean(e**2) + n * tiny
    overflow = np.isfinite(value) & (n * mean(size) ** 2 + n * mean(size**2) > sums.largest)
    scale = n / divisor
    # Infinite elements give NaN by either formula.
    unknown = np.any(x.ambiguous, axis=axes, keepdims=keep) | overflow
    return value * scale, error * scale, np.asarray(unknown)


def variance(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    value, error, unknown = _variance(inputs, attrs)
    return rounded(value, error, unknown, inputs[0].dtype)


def std(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    value, error, unknown = _variance(inputs, attrs)
    y = np.sqrt(value)
    low, high = np.sqrt(np.maximum(value - error, 0.0)), np.sqrt(value + error)
    return rounded(y, np.maximum(y - low, high - y), unknown, inputs[0].dtype)


def logsumexp(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes max + log(sum(exp(x - max))).

    The exponent of each term is rounded once; exp and log are granted 4 roundings each.
    """
    (x,) = inputs
    axes, keep = axes_of(attrs, len(x.shape)), attrs["keepdims"]
    n = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    u = UNIT_ROUNDOFF[x.dtype]

    def logarithm(v: np.ndarray) -> tuple[Any, Any, Any]:
        """Returns log(sum(exp(v))), the sum of exp(v - max), and the mean of max - v in it."""
        top = np.max(v, axis=axes, keepdims=True)
        terms = np.exp(v - top)
        total = np.sum(terms, axis=axes, keepdims=keep)
        exponents = np.where(terms > 0, top - v, 0.0)
        exponent = np.sum(terms * exponents, axis=axes, keepdims=keep) / total
        top = np.max(v, axis=axes, keepdims=keep)
        return top + np.log(total), total, exponent

    e = np.where(x.ambiguous, 0.0, x.error)
    y, total, exponent = logarithm(x.value)
    moved = np.maximum(logarithm(x.value + e)[0] - y, y - logarithm(x.value - e)[0])
    # Where all elements are exact, nothing is propagated.
    moved = np.where(np.any(e > 0, axis=axes, keepdims=keep), moved, 0.0)
    # Another element may be the computed maximum; the exponents then differ by at most 2 e.
    width = 2 * np.max(e, axis=axes, keepdims=keep)
    error = moved + u * (exponent + width + n + 4) * 1.01 + 4 * u * np.log(total)
    # A declared accumulator rounds more; terms that underflow are lost.
    sums = accumulator(x.dtype)
    error = error + 1.01 * (gamma(n, sums.u) - gamma(n, u))
    error = error + n * sums.lost
    infinite = np.isinf(np.max(x.value, axis=axes, keepdims=keep))
    # inf - inf is NaN after the shift, although log(sum(exp(x))) has a value.
    unknown = np.any(x.ambiguous, axis=axes, keepdims=keep) | infinite
    return rounded(y, np.where(infinite, 0.0, error), unknown, x.dtype)


def _along(attrs: Attrs, accumulate: Any, first: float) -> Callable[[np.ndarray], np.ndarray]:
    """Builds the scan of an array by a ufunc's `accumulate`; exclusive scans start with `first`."""
    axis = attrs["axis"]

    def scan(v: np.ndarray) -> np.ndarray:
        v = v.reshape(-1) if axis is None else np.moveaxis(v, axis, -1)
        out = accumulate(v, axis=-1)
        if attrs["exclusive"]:
            out = np.concatenate([np.full_like(out[..., :1], first), out[..., :-1]], axis=-1)
        return out if axis is None else np.moveaxis(out, -1, axis)

    return scan


def _terms(x: Bounded, attrs: Attrs) -> np.ndarray:
    """Returns the number of elements scanned up to each position, as the bound on its roundings."""
    return _along(attrs, np.add.accumulate, 0)(np.ones(x.shape))


def cumsum(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    dtype = attrs["dtype"] or x.dtype
    scan = _along(attrs, np.add.accumulate, 0)
    ambiguous = _along(attrs, np.logical_or.accumulate, False)(x.ambiguous)
    if dtype not in UNIT_ROUNDOFF:
        # Partial sums must not overflow either.
        largest = integer(unwrapped(lambda v: scan(np.abs(v)), x.value), ambiguous, dtype)
        return integer(unwrapped(scan, x.value), largest.ambiguous, dtype)
    value = x.value.astype(np.float64)
    magnitude = np.where(np.isfinite(value), np.abs(value), 0.0)
    propagated = scan(np.where(x.ambiguous, 0.0, x.error))
    terms = _terms(x, attrs)
    sums = accumulator(dtype, x.dtype)
    return accumulated(scan(value), scan(magnitude), propagated, terms, ambiguous, dtype, sums=sums)


def cumprod(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    some = _along(attrs, np.logical_or.accumulate, False)
    product = _along(attrs, np.multiply.accumulate, 1)
    return multiplied(x, product, some, _terms(x, attrs), attrs["dtype"] or x.dtype)


KERNELS: dict[str, Kernel] = {
    "argmax": _arg(True),
    "argmin": _arg(False),
    "all": _truth(False),
    "any": _truth(True),
    "variance": variance,
    "std": std,
    "logsumexp": logsumexp,
    "cumsum": cumsum,
    "cumprod": cumprod,
}
