"""Functions that SciPy and ONNX lack, evaluated element by element by Python's module math."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def _each(f: Callable[..., Any]) -> Any:
    def evaluate(arrays: list[np.ndarray], a: Any, outs: Any) -> np.ndarray:
        return np.asarray(np.vectorize(f, otypes=[np.float64])(*(v.astype(np.float64) for v in arrays)))

    return evaluate


EVALUATE: dict[str, Any] = {
    "log2": _each(math.log2),
    "log10": _each(math.log10),
    "rsqrt": _each(lambda x: 1 / math.sqrt(x)),
    "trunc": _each(math.trunc),
    "square": _each(lambda x: math.pow(x, 2)),
    "atan2": _each(math.atan2),
    "log_add_exp": _each(lambda x, y: math.log(math.fsum([math.exp(x), math.exp(y)]))),
    "trunc_mod": _each(math.fmod),
    "isfinite": _each(math.isfinite),
}
