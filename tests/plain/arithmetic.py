"""Plain evaluations of arithmetic, except the commonest operators."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np


def _binary(f: Any) -> Any:
    return lambda arrays, a, outs, add: np.asarray(f(*arrays)).astype(arrays[0].dtype)


def _elementwise(f: Any) -> Any:
    """Applies f to two Python numbers, exactly: to fractions of floats, or to integers."""

    def one(a: Any, b: Any) -> float:
        exact = [Fraction(float(v)) if math.isfinite(v) else v for v in (a, b)]
        try:
            return float(f(*exact))
        except (ZeroDivisionError, TypeError, ValueError, OverflowError):
            return math.nan

    def evaluate(arrays: Any, attrs: Any, outs: Any, add: Any) -> np.ndarray:
        a, b = np.broadcast_arrays(*arrays)
        pairs = zip(a.ravel().tolist(), b.ravel().tolist())
        return np.array([one(p, q) for p, q in pairs], np.float64).astype(a.dtype).reshape(a.shape)

    return evaluate


def _multiply(arrays: Any, a: Any, outs: Any, add: Any) -> np.ndarray:
    scale = Fraction(a["multiplier"]) * Fraction(2) ** (a["shift"] - 31)
    half = Fraction(1, 2)
    rounded = [math.floor(v * scale + half) for v in arrays[0].ravel().tolist()]
    return np.array(rounded, np.int64).astype(np.int32).reshape(arrays[0].shape)


PLAIN: dict[str, Any] = {
    "power": _binary(lambda a, b: a**b),
    "floor_divide": _elementwise(lambda a, b: a // b),
    "trunc_divide": _elementwise(lambda a, b: math.trunc(a / b)),
    "mod": _elementwise(lambda a, b: a - b * math.trunc(a / b)),
    "floor_mod": _elementwise(lambda a, b: a % b),
    "trunc_mod": _elementwise(lambda a, b: a - b * math.trunc(a / b)),
    "atan2": _binary(lambda a, b: np.angle(b.astype(np.float64) + 1j * a.astype(np.float64))),
    "log_add_exp": _binary(lambda a, b: np.log(np.exp(a) + np.exp(b))),
    "fixed_point_multiply": _multiply,
}
