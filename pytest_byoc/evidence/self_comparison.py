"""Compares a target's outputs for two graphs that compute the same, where no bound can judge them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..reference_kernels import Bounded
from ..reference_kernels.bounded import UNIT_ROUNDOFF
from .comparison import judged

#: How much further apart two results may be than LLVM's are from the exact values, both together: a
#: target may sum in another order than LLVM, with larger errors.
FACTOR = 4.0


@dataclass(frozen=True)
class Distance:
    """The elements of an output that differ too much between two graphs that compute the same.

    mask: these elements. allowed: how far apart they may be.
    """

    mask: np.ndarray
    allowed: float


def too_far(
    one: np.ndarray, other: np.ndarray, expected: Sequence[Bounded], llvm: Sequence[np.ndarray]
) -> Distance | None:
    """Returns the elements of two outputs that no bound judges and that are too far apart; None if there
    are none.

    expected, llvm: the values with their bounds and LLVM's outputs, for each of the two graphs. LLVM's
    largest errors tell how large the errors of a right implementation are. An element that is ambiguous may
    be anything if it is one of few; the elements count where more than half of them are too far apart.
    """
    a, b = expected
    if any(x.shape != one.shape for x in (other, a.value, b.value, *llvm)):
        return None
    with np.errstate(all="ignore"):
        values = [x.value.astype(np.float64) for x in expected]
        finite = np.isfinite(values[0]) & np.isfinite(values[1])
        if not _same(values[0], values[1], finite):
            return None
        unknown = finite & ~(judged(a) & judged(b))
        errors = [np.abs(r.astype(np.float64) - v)[finite] for r, v in zip(llvm, values)]
        if not unknown.any() or not all(np.isfinite(e).all() for e in errors):
            return None
        largest = float(np.max(np.abs(values[0][finite]), initial=0.0))
        rounding = UNIT_ROUNDOFF.get(a.dtype, 0.0) * largest
        allowed = FACTOR * (sum(float(e.max(initial=0.0)) for e in errors) + rounding)
        apart = ~(np.abs(one.astype(np.float64) - other.astype(np.float64)) <= allowed)
    ambiguous = unknown & (a.ambiguous | b.ambiguous)
    mask = apart & unknown & ~ambiguous
    if 2 * int((apart & ambiguous).sum()) > int(ambiguous.sum()):
        mask |= apart & ambiguous
    return Distance(mask, allowed) if mask.any() else None


def _same(one: np.ndarray, other: np.ndarray, finite: np.ndarray) -> bool:
    """Returns whether the exact values are the same, up to the errors of float64: the type rules do not
    tell of each change of a graph that it computes the same."""
    scale = float(np.max(np.abs(one[finite]), initial=0.0))
    return bool(np.all(np.abs(one - other)[finite] <= 1e-9 * scale))
