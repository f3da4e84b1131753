"""Plain evaluations of quantisation and quantised operators in rational numbers, element by
element."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "int32": (-(2**31), 2**31 - 1)}
HALF = Fraction(1, 2)


def upward(r: Fraction) -> int:
    return math.floor(r + HALF)


def away(r: Fraction) -> int:
    return -upward(-r) if r < 0 else upward(r)


def over(p: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    """Expands a single number, or one number per channel, to the shape of x."""
    if p.size == 1:
        return np.full(x.shape, p.reshape(-1)[0])
    return np.moveaxis(np.broadcast_to(p, np.moveaxis(x, axis, -1).shape), -1, axis)


def each(f: Callable[..., Any], dtype: str, *arrays: np.ndarray) -> np.ndarray:
    """Applies f to the elements as rational numbers and converts to the dtype; integers
    saturate."""

    def element(*values: Any) -> Any:
        y = f(*(Fraction(v.item() if hasattr(v, "item") else float(v)) for v in values))
        return min(max(int(y), LIMITS[dtype][0]), LIMITS[dtype][1]) if dtype in LIMITS else float(y)

    wide = [a if a.dtype.kind in "iu" else a.astype(np.float64) for a in arrays]
    return np.asarray(np.vectorize(element, otypes=[object])(*wide)).astype(dtype)


def quantize(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> np.ndarray:
    x, s, z = arrays
    parameters = over(s, x, a["axis"]), over(z, x, a["axis"])
    return each(lambda x, s, z: upward(x / s) + z, outs[0].dtype, x, *parameters)


def dequantize(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> np.ndarray:
    q, s, z = arrays
    return each(lambda q, s, z: s * (q - z), outs[0].dtype, q, over(s, q, a["axis"]), over(z, q, a["axis"]))


def requantize(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> np.ndarray:
    q, s, z, so, zo = arrays
    round_ = away if a.get("rounding") == "TONEAREST" else upward
    axis = a.get("axis", -1)
    return each(
        lambda q, s, z, so, zo: round_(s / so * (q - z)) + zo,
        outs[0].dtype, q, over(s, q, axis), over(z, q, axis), so, zo,
    )


def concatenate(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> np.ndarray:
    n = len(arrays) // 3
    parts = [requantize([*arrays[i : 3 * n : n], *arrays[-2:]], {}, outs, add) for i in range(n)]
    return np.concatenate(parts, axis=a["axis"])


PLAIN: dict[str, Any] = {
    "qnn.quantize": quantize,
    "qnn.dequantize": dequantize,
    "qnn.requantize": requantize,
    "qnn.concatenate": concatenate,
}
BY = dict.fromkeys(PLAIN, "rational numbers")
