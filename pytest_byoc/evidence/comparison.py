"""Compares one output with its bound: the elements that can be judged, and those outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..reference_kernels import Bounded

#: The largest bound that can still judge floats which are all (nearly) zero: inputs are of the
#: order of 1, so a smaller bound is negligible.
NEGLIGIBLE = 0.01
#: The largest distance of an inexact value, as a multiple of its bound; beyond, the value is wrong.
NEAR = 32.0
#: The least size of a value that must not be zero, as a share of the largest one.
_FAR = 0.1


@dataclass
class Comparison:
    """The comparison of one output with its bound.

    judged: a mask of the elements that the bound can judge. outside: a mask of the elements outside of
    their bound: those that are judged, and numbers that are further off than even a bound allows that
    is larger than all values.
    """

    judged: np.ndarray
    outside: np.ndarray


def within(actual: np.ndarray, expected: Bounded) -> bool:
    """Returns whether all elements are surely inside their bounds.

    This cheap test suffices for most results; `compare` decides about the others.
    """
    with np.errstate(all="ignore"):
        if expected.is_float:
            return bool((np.abs(actual.astype(np.float64) - expected.value) <= expected.error).all())
        return bool((actual == expected.value).all())


def allowed_error(expected: Bounded) -> np.ndarray:
    """Returns the largest error that an element may have.

    It is twice the bound for float64: the oracle's own value, a float64 too, has the same error.
    """
    return expected.error * 2 if expected.dtype == "float64" else expected.error


def judged(expected: Bounded) -> np.ndarray:
    """Returns a mask of the elements that the bound can judge."""
    return ~expected.ambiguous & ~_vacuous(expected)


def _vacuous(expected: Bounded) -> np.ndarray:
    """Returns a mask of the elements whose bound is larger than the largest value: it judges nothing,
    unless all values are (nearly) zero."""
    finite = np.isfinite(expected.value)
    scale = float(np.max(np.abs(expected.value[finite] * 1.0), initial=0.0))
    return finite & (allowed_error(expected) > max(scale, NEGLIGIBLE if expected.is_float else 1))


def unjudged_numbers(expected: Bounded, reference: np.ndarray | None) -> np.ndarray:
    """Returns a mask of the elements that the bound cannot judge, but that have to be numbers: a long
    sum in 16 bits, for example, which overflows in some targets.

    reference: LLVM's output, which has to be a number other than zero there (None: it is not
    known).
    """
    mask: np.ndarray = _vacuous(expected) & ~expected.ambiguous
    if expected.narrow is not None:
        mask |= expected.narrow
    if reference is not None:
        with np.errstate(all="ignore"):
            r = reference.astype(np.float64)
        mask &= np.isfinite(r) & (r != 0)
    return mask


def lost(actual: np.ndarray, expected: Bounded, reference: np.ndarray | None) -> np.ndarray:
    """Returns a mask of those `unjudged_numbers` that are no numbers in an output, or zero."""
    with np.errstate(all="ignore"):
        a = actual.astype(np.float64)
        suspect: np.ndarray = ~np.isfinite(a) | (a == 0)
        if not suspect.any():
            # The usual case, kept cheap.
            return suspect
        far = np.abs(expected.value) > _FAR * float(np.max(np.abs(expected.value), initial=0.0))
        mask: np.ndarray = suspect & ((a != 0) | far) & unjudged_numbers(expected, reference)
    return mask


def compare(actual: np.ndarray, expected: Bounded) -> Comparison:
    """Compares an output with its bound, element by element. The shapes must be equal.

    Where the expected value is NaN or an infinity, the output must be the same.
    """
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
            # The errors of quantised values are a few steps of small numbers, exact in float64.
            inside |= np.abs(actual.astype(np.float64) - value) <= error
    known = judged(expected)
    outside = known & ~inside
    rest = ~known & ~expected.ambiguous & finite & ~inside
    if rest.any():
        with np.errstate(all="ignore"):
            outside |= rest & np.isfinite(error) & np.isfinite(actual.astype(np.float64))
    return Comparison(known, outside)


def is_inexact(actual: np.ndarray, expected: Bounded, outside: np.ndarray) -> bool:
    """Returns whether the elements outside are inexact rather than wrong.

    No such element may be further than NEAR times its allowed error from the expected value.
    """
    with np.errstate(all="ignore"):
        distance = np.abs(actual.astype(np.float64) - expected.value)[outside]
        return bool(expected.is_float and np.all(distance <= NEAR * allowed_error(expected)[outside]))


def share_judged(expected: Sequence[Bounded]) -> float:
    """Returns the share of the elements that can be judged; 1 if there are no elements.

    Those that are `narrow` are among them: `lost` says whether they are numbers.
    """
    total = sum(bounded.value.size for bounded in expected)
    masks = [judged(b) if b.narrow is None else judged(b) | b.narrow for b in expected]
    return sum(int(mask.sum()) for mask in masks) / total if total else 1.0


def agree(actual: np.ndarray, reference: np.ndarray, bounded: Bounded) -> np.ndarray:
    """Returns a mask of the elements of two outputs that differ by at most the bound.

    Elements that are equal agree too, NaN included.
    """
    with np.errstate(all="ignore"):
        a, r = actual.astype(np.float64), reference.astype(np.float64)
        near = np.abs(a - r) <= bounded.error
        return near | (a == r) | (np.isnan(a) & np.isnan(r))
