"""Kernels of the reductions sum, mean, max, min and prod."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .bounded import (
    LARGEST,
    SMALLEST_NORMAL,
    UNIT_ROUNDOFF,
    Bounded,
    accumulated,
    gamma,
    integer,
    rounded,
    unwrapped,
)
from .elementwise import Attrs, Kernel


def axes_of(attrs: Attrs, rank: int) -> tuple[int, ...]:
    """Returns the axes to reduce, as non-negative numbers in ascending order.

    An `axis` of None names all axes; with `exclude` the axes that are not named are reduced.
    """
    if attrs["axis"] is None:
        return tuple(range(rank))
    named = {a % rank for a in attrs["axis"]}
    return tuple(a for a in range(rank) if (a in named) != bool(attrs.get("exclude")))


def summed(
    x: Bounded, axes: tuple[int, ...], keepdims: bool, divisor: float = 1.0, ulps: float = 0.0
) -> Bounded:
    """Returns the sum over `axes`, divided by `divisor`.

    ulps: the roundings granted to the division of floats. Integers are divided towards zero.
    """

    def reduce(v: np.ndarray) -> Any:
        return np.sum(v, axis=axes, keepdims=keepdims)

    terms = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    ambiguous = np.any(x.ambiguous, axis=axes, keepdims=keepdims)
    if not x.is_float:
        # Partial sums must not overflow either.
        largest = integer(unwrapped(lambda v: reduce(np.abs(v)), x.value), ambiguous, x.dtype)
        total = integer(unwrapped(reduce, x.value), largest.ambiguous, x.dtype)
        return quotient(total, np.array(int(divisor)))
    magnitude = np.where(np.isfinite(x.value), np.abs(x.value), 0.0)
    total = accumulated(
        reduce(x.value), reduce(magnitude), reduce(x.error), terms, ambiguous, x.dtype
    )
    if divisor == 1.0:
        return total
    error = np.where(total.ambiguous, 0.0, total.error) / divisor
    return rounded(total.value / divisor, error, total.ambiguous, x.dtype, ulps)


def quotient(total: Bounded, count: np.ndarray) -> Bounded:
    """Divides integers by a count, towards zero; ambiguous where the count exceeds the dtype."""
    value = unwrapped(lambda v, n: np.sign(v) * (np.abs(v) // n), total.value, np.asarray(count, np.int64))
    return integer(value, total.ambiguous | (count > np.iinfo(total.dtype).max), total.dtype)


def sum_(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    return summed(x, axes_of(attrs, len(x.shape)), attrs["keepdims"])


def mean(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes the mean, with three roundings after the sum.

    An implementation may divide by the count or multiply by its rounded reciprocal. Integers are
    divided towards zero; where their sum or the count exceeds the dtype, the result is ambiguous.
    """
    (x,) = inputs
    axes = axes_of(attrs, len(x.shape))
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    return summed(x, axes, attrs["keepdims"], float(count), 3.0)


def chosen(x: Bounded, axes: tuple[int, ...], keepdims: bool, largest: bool) -> Bounded:
    """Returns the largest or smallest element over `axes`; NaN and empty axes are ambiguous.

    The operation rounds nothing, and it maps the ends of the elements' intervals to the result's.
    """
    if any(x.shape[a] == 0 for a in axes):
        # TVM's versions differ in the result for no elements.
        nothing = np.sum(x.value, axis=axes, keepdims=keepdims) * 0
        return Bounded(nothing, np.full(nothing.shape, np.inf), np.full(nothing.shape, True), x.dtype)
    f = np.max if largest else np.min
    y = f(x.value, axis=axes, keepdims=keepdims)
    unknown = np.any(x.ambiguous | np.isnan(x.value), axis=axes, keepdims=keepdims)
    if not x.is_float:
        return integer(y, unknown, x.dtype)
    up = f(x.high, axis=axes, keepdims=keepdims) - y
    down = y - f(x.low, axis=axes, keepdims=keepdims)
    # An infinite result that is not ambiguous is exact.
    spread = np.where(np.isinf(y), 0.0, np.maximum(up, down))
    return rounded(y, spread, unknown, x.dtype, 0.0)


def max_(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    return chosen(x, axes_of(attrs, len(x.shape)), attrs["keepdims"], True)


def min_(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    return chosen(x, axes_of(attrs, len(x.shape)), attrs["keepdims"], False)


def multiplied(
    x: Bounded,
    reduce: Callable[[np.ndarray], Any],
    some: Callable[[np.ndarray], Any],
    n: int | np.ndarray,
    dtype: str,
) -> Bounded:
    """Returns products of n factors in `dtype`, multiplied in any order.

    reduce: multiplies the factors of each product. some: returns for each product whether any of
    its factors has its flag set. n: the number of factors, for all products or for each.

    With e the factors' errors, the bound is gamma(n) * prod(|x| + e) for the roundings, plus
    prod(|x| + e) - prod(|x|) for the propagated errors. A partial product that underflows is
    multiplied by the remaining factors, at most by prod(max(1, |x| + e)). Where that overflows, a
    partial product may overflow, and the result is ambiguous.
    """
    ambiguous = some(x.ambiguous)
    if dtype not in UNIT_ROUNDOFF:
        largest = reduce(np.maximum(1.0, np.abs(x.value.astype(np.float64))))
        overflow = ~(largest < float(np.iinfo(dtype).max) + 1)
        return integer(reduce(x.value), ambiguous | overflow, dtype)
    u, tiny = UNIT_ROUNDOFF[dtype], SMALLEST_NORMAL[dtype]
    magnitude, error = np.abs(x.value), np.where(x.ambiguous, 0.0, x.error)
    largest, most = reduce(magnitude + error), reduce(np.maximum(1.0, magnitude + error))
    moved = largest - reduce(magnitude)
    # The subtraction above is itself rounded, in float64.
    moved = np.where(some(error > 0), moved + n * 2**-51 * largest, 0)
    bound = moved + gamma(n, u) * largest + n * tiny * most
    infinite = some(np.isinf(x.value))
    bound = np.where(infinite & (moved == 0), 0.0, bound)
    overflow = most * (1 + gamma(n, u)) > LARGEST[dtype]
    # Infinity times an interval that contains zero may be NaN.
    ambiguous = ambiguous | (overflow & ~infinite) | (infinite & (moved != 0))
    return rounded(reduce(x.value.astype(np.float64)), bound, ambiguous, dtype, 0.0)


def prod(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    axes, keep = axes_of(attrs, len(x.shape)), attrs["keepdims"]
    n = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    return multiplied(
        x,
        lambda v: np.prod(v, axis=axes, keepdims=keep),
        lambda v: np.any(v, axis=axes, keepdims=keep),
        n,
        x.dtype,
    )


KERNELS: dict[str, Kernel] = {"sum": sum_, "mean": mean, "max": max_, "min": min_, "prod": prod}
