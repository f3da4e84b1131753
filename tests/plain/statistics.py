"""Plain evaluations of reductions to an index, a truth value or a spread, and of scans along an
axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .sums import Sum


def rows(x: np.ndarray, a: dict[str, Any]) -> np.ndarray:
    """Returns the elements that are reduced to each result, along the last axis."""
    named = range(x.ndim) if a["axis"] is None else [i % x.ndim for i in a["axis"]]
    reduced = [i for i in range(x.ndim) if (i in named) != a.get("exclude", False)]
    kept = [i for i in range(x.ndim) if i not in reduced]
    return x.transpose(kept + reduced).reshape([x.shape[i] for i in kept] + [-1])


def position(better: Callable[[Any, Any], Any]) -> Any:
    """Goes through the elements and keeps the position of the best so far."""

    def evaluate(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
        v = rows(arrays[0], a)
        index, best = np.zeros(v.shape[:-1], outs[0].dtype), v[..., 0]
        for i in range(1, v.shape[-1]):
            replaced = better(v[..., i], best) | (a["select_last_index"] & (v[..., i] == best))
            index, best = np.where(replaced, i, index), np.where(replaced, v[..., i], best)
        return index.astype(outs[0].dtype).reshape(outs[0].shape)

    return evaluate


def truth(extreme: Any) -> Any:
    return lambda arrays, a, outs, add: (
        extreme(rows(arrays[0], a) * 1, axis=-1).reshape(outs[0].shape).astype(outs[0].dtype)
    )


def variance(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    v = rows(arrays[0], a)
    n = v.shape[-1]
    dev = v - (add(v) / v.dtype.type(n))[..., None]
    y = add(dev * dev) / v.dtype.type(n - 1 if a["unbiased"] else n)
    return y.reshape(outs[0].shape).astype(v.dtype)


def one_pass(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    """Computes the variance as the mean of squares less the square of the mean."""
    v = rows(arrays[0], a)
    n = v.dtype.type(v.shape[-1])
    mean = add(v) / n
    y = add(v * v) / n - mean * mean
    y = y * n / v.dtype.type(v.shape[-1] - 1) if a["unbiased"] else y
    return y.reshape(outs[0].shape).astype(v.dtype)


def logsumexp(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    v = rows(arrays[0], a)
    top = v.max(axis=-1)
    return (top + np.log(add(np.exp(v - top[..., None])))).reshape(outs[0].shape)


def scan(times: bool) -> Any:
    """Computes each result independently, from all the elements before it."""

    def evaluate(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
        (x,) = arrays
        v = x.astype(outs[0].dtype)
        v = v.flatten()[None] if a["axis"] is None else np.moveaxis(v, a["axis"], -1)
        columns = []
        for i in range(v.shape[-1]):
            before = v[..., : i + (0 if a["exclusive"] else 1)]
            if before.shape[-1] == 0:
                columns.append(np.full(v.shape[:-1], int(times), v.dtype))
            elif times:
                columns.append(np.multiply.reduce(before, axis=-1, dtype=v.dtype))
            else:
                columns.append(add(before).astype(v.dtype))
        y = np.stack(columns, axis=-1)
        return y[0] if a["axis"] is None else np.moveaxis(y, -1, a["axis"])

    return evaluate


PLAIN: dict[str, Any] = {
    "argmax": position(np.greater),
    "argmin": position(np.less),
    "all": truth(np.min),
    "any": truth(np.max),
    "variance": variance,
    "std": lambda *of: np.sqrt(variance(*of)),
    "logsumexp": logsumexp,
    "cumsum": scan(False),
    "cumprod": scan(True),
}
