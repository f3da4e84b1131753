"""Plain evaluations of conversions between dtypes, copies, and constant tensors of another's
shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_byoc.generation.data import numpy_dtype


def _cast(arrays: Any, attrs: Any, outs: Any, add: Any) -> np.ndarray:
    return np.asarray(arrays[0].astype(numpy_dtype(outs[0].dtype)))


def _filled(number: Any) -> Any:
    def evaluate(arrays: Any, attrs: Any, outs: Any, add: Any) -> np.ndarray:
        return np.array([number(arrays)] * arrays[0].size).astype(arrays[0].dtype).reshape(arrays[0].shape)

    return evaluate


PLAIN: dict[str, Any] = {
    "cast": _cast,
    "cast_like": _cast,
    "reinterpret": lambda arrays, a, outs, add: np.frombuffer(arrays[0].tobytes(), outs[0].dtype).reshape(
        outs[0].shape
    ),
    "copy": lambda arrays, a, outs, add: arrays[0] * np.ones((), arrays[0].dtype),
    "zeros_like": _filled(lambda arrays: 0),
    "ones_like": _filled(lambda arrays: 1),
    "full_like": _filled(lambda arrays: arrays[1].item()),
}
