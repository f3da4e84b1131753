"""One output against its bound: which elements can be judged, which are outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..reference_kernels import Bounded

#: Inputs are of the order of 1: an error bound below this says something of a result of zero too.
NEGLIGIBLE = 0.01
#: Bounds that a result may be away by and still be told to be inexact, not another value.
NEAR = 32.0


@dataclass
class Comparison:
    """Outcome of one output array against its bound: which elements are judged, which are outside."""

    judged: np.ndarray
    outside: np.ndarray


def within(actual: np.ndarray, expected: Bounded) -> bool:
    """Whether all elements are surely inside their bounds: most results are told to be right by this much."""
    with np.errstate(all="ignore"):
        if expected.is_float:
            return bool((np.abs(actual.astype(np.float64) - expected.value) <= expected.error).all())
        return bool((actual == expected.value).all())


def allowed_error(expected: Bounded) -> np.ndarray:
    """Our own float64 value is no more exact than a float64 result: both errors count."""
    return expected.error * 2 if expected.dtype == "float64" else expected.error


def judged(expected: Bounded) -> np.ndarray:
    """Which elements the bound can judge."""
    finite = np.isfinite(expected.value)
    # A bound as large as the largest value says nothing, unless all values are (nearly) zero.
    scale = float(np.max(np.abs(expected.value[finite] * 1.0), initial=0.0))
    vacuous = finite & (allowed_error(expected) > max(scale, NEGLIGIBLE if expected.is_float else 1))
    return ~expected.ambiguous & ~vacuous


def compare(actual: np.ndarray, expected: Bounded) -> Comparison:
    """Elementwise. Shapes must agree. NaN is expected where the kernel says NaN, infinities exactly."""
    error, value = allowed_error(expected), expected.value
    finite = np.isfinite(value)
    if expected.is_float:
        with np.errstate(all="ignore"):
            a = actual.astype(np.float64)
            inside = np.where(
                np.isnan(value), np.isnan(a), np.where(finite, np.abs(a - value) <= error, a == value)
            )
    else:
        inside = actual == value
        if error.any():
            # Steps of a quantised value: small numbers, which float64 holds.
            inside |= np.abs(actual.astype(np.float64) - value) <= error
    known = judged(expected)
    return Comparison(known, known & ~inside)


def is_inexact(actual: np.ndarray, expected: Bounded, outside: np.ndarray) -> bool:
    """Whether no element is outside by more than NEAR bounds: another rounding, and no other value."""
    with np.errstate(all="ignore"):
        distance = np.abs(actual.astype(np.float64) - expected.value)[outside]
        return bool(expected.is_float and np.all(distance <= NEAR * allowed_error(expected)[outside]))


def share_judged(expected: Sequence[Bounded]) -> float:
    """Share of the elements that can be judged; 1 where there are none."""
    total = sum(bounded.value.size for bounded in expected)
    return sum(int(judged(bounded).sum()) for bounded in expected) / total if total else 1.0


def agree(actual: np.ndarray, reference: np.ndarray, bounded: Bounded) -> np.ndarray:
    """Where the two are within one bound of each other (or equal, NaN included)."""
    with np.errstate(all="ignore"):
        a, r = actual.astype(np.float64), reference.astype(np.float64)
        near = np.abs(a - r) <= bounded.error
        return near | (a == r) | (np.isnan(a) & np.isnan(r))
