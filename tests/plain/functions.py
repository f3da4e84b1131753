"""Plain evaluations of elementwise functions of one tensor, except the commonest."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.special


def _in_dtype(f: Any) -> Any:
    """Applies f in the array's own dtype; SciPy and parts of NumPy lack the 16-bit dtypes."""

    def evaluate(arrays: list[np.ndarray], attrs: Any, outs: Any, add: Any) -> np.ndarray:
        (x,) = arrays
        wide = x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind != "i" else x
        return np.asarray(f(wide)).astype(x.dtype)

    return _unary(evaluate)


def _unary(evaluate: Any) -> Any:
    """Restores arrays of rank 0, which NumPy turns into scalars."""
    return lambda arrays, a, outs, add: np.asarray(evaluate(arrays, a, outs, add)).astype(arrays[0].dtype)


def _steps(f: Any) -> Any:
    """Rounds after each operation of f, a function of (array, constructor of its dtype,
    attributes)."""
    return _unary(lambda arrays, a, outs, add: f(arrays[0], arrays[0].dtype.type, a))


def _gelu(x: Any, c: Any, a: Any) -> Any:
    z = x * c(math.sqrt(0.5))
    return x * (c(0.5) + c(0.5) * scipy.special.erf(z.astype(np.float64)).astype(x.dtype))


def _gelu_tanh(x: Any, c: Any, a: Any) -> Any:
    inner = x + c(0.044715) * x * x * x
    return c(0.5) * x * (c(1) + np.tanh(c(math.sqrt(2 / math.pi)) * inner))


def _selu(x: Any, c: Any, a: Any) -> Any:
    negative = c(1.6732632423543772) * (np.exp(x) - c(1))
    return c(1.0507009873554805) * np.where(x > 0, x, negative)


def _softplus(x: Any, c: Any, a: Any) -> Any:
    z = x * c(a["beta"])
    return np.where(z > c(a["threshold"]), x, np.log(c(1) + np.exp(z)) / c(a["beta"]))


def _prelu(arrays: Any, a: Any, outs: Any, add: Any) -> np.ndarray:
    x, alpha = arrays
    y = x.copy()
    for i in range(x.shape[a["axis"]]):
        at = (slice(None),) * (a["axis"] % x.ndim) + (i,)
        y[at] = np.where(x[at] > 0, x[at], x[at] * alpha[i])
    return y


PLAIN: dict[str, Any] = {
    "erf": _in_dtype(scipy.special.erf),
    "rsqrt": _steps(lambda x, c, a: c(1) / np.sqrt(x)),
    "round": _in_dtype(np.round),
    "trunc": _in_dtype(lambda x: np.where(x < 0, np.ceil(x), np.floor(x))),
    "sign": _steps(lambda x, c, a: np.where(x > 0, 1, np.where(x == 0, 0, -1))),
    "sin": _in_dtype(lambda x: np.exp(1j * x).imag),
    "cos": _in_dtype(lambda x: np.exp(1j * x).real),
    "tan": _steps(lambda x, c, a: np.sin(x) / np.cos(x)),
    "asin": _in_dtype(lambda x: np.arctan2(x, np.sqrt((1 - x) * (1 + x)))),
    "acos": _in_dtype(lambda x: np.arctan2(np.sqrt((1 - x) * (1 + x)), x)),
    "atan": _in_dtype(lambda x: np.arctan2(x, np.ones_like(x))),
    "sinh": _steps(lambda x, c, a: (np.exp(x) - np.exp(-x)) / c(2)),
    "cosh": _steps(lambda x, c, a: (np.exp(x) + np.exp(-x)) / c(2)),
    "asinh": _in_dtype(lambda x: np.copysign(np.log1p(abs(x) + x * x / (1 + np.hypot(1, x))), x)),
    "acosh": _in_dtype(lambda x: np.log1p((x - 1) + np.sqrt((x - 1) * (x + 1)))),
    "atanh": _steps(lambda x, c, a: c(0.5) * np.log((c(1) + x) / (c(1) - x))),
    "log2": _in_dtype(lambda x: np.frexp(x)[1] + np.log(np.frexp(x)[0].astype(np.float64)) / math.log(2)),
    "log10": _steps(lambda x, c, a: np.log(x) * c(1 / math.log(10))),
    "square": _steps(lambda x, c, a: x * x),
    "nn.gelu": _steps(_gelu),
    "nn.gelu_tanh": _steps(_gelu_tanh),
    "nn.silu": _steps(lambda x, c, a: x * (c(1) / (c(1) + np.exp(-x)))),
    "nn.selu": _steps(_selu),
    "nn.softplus": _steps(_softplus),
    "nn.relu6": _steps(lambda x, c, a: np.where(x < 0, 0, np.where(x > 6, 6, x))),
    "nn.prelu": _prelu,
}
BY = {"erf": "SciPy", "nn.gelu": "SciPy's erf"}
