"""Orders in which a sum can be computed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Sum = Callable[[np.ndarray], np.ndarray]


def forwards(terms: np.ndarray) -> np.ndarray:
    """Sums over the last axis, first to last."""
    total = terms[..., 0]
    for i in range(1, terms.shape[-1]):
        total = total + terms[..., i]
    return total


def backwards(terms: np.ndarray) -> np.ndarray:
    return forwards(terms[..., ::-1])


def by_halves(terms: np.ndarray) -> np.ndarray:
    n = terms.shape[-1]
    return terms[..., 0] if n == 1 else by_halves(terms[..., : n // 2]) + by_halves(terms[..., n // 2 :])


ORDERS = {"forwards": forwards, "backwards": backwards, "by_halves": by_halves}
