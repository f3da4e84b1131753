"""Plain evaluations of elements selected by index, and of positions turned into values."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .sums import Sum


def each(shape: Any) -> Any:
    return itertools.product(*map(range, shape))


def take(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    """Copies one element of the result after the other."""
    x, index = arrays
    axis, b = a["axis"], a["batch_dims"]
    if axis is None:
        x, axis = x.flatten(), 0
    axis %= x.ndim
    n, k = x.shape[axis], index.ndim - b
    y = np.empty(outs[0].shape, x.dtype)
    for at in each(y.shape):
        i = int(index[at[:b] + at[axis : axis + k]])
        if a["mode"] == "nan" and not 0 <= i < n:
            y[at] = np.nan
            continue
        i = min(max(i, 0), n - 1) if a["mode"] == "clip" else i % n
        y[at] = x[at[:axis] + (i,) + at[axis + k :]]
    return y


def gather(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    x, index = (np.moveaxis(v, a["axis"], 0) for v in arrays)
    y = np.zeros(index.shape, x.dtype)
    for i in range(len(x)):
        y = np.where(index == i, x[i], y)
    return np.moveaxis(y, 0, a["axis"])


def gather_nd(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    x, index = arrays
    index = index if a["index_last"] else np.moveaxis(index, 0, -1)
    y = np.empty(outs[0].shape, x.dtype)
    for at in each(index.shape[:-1]):
        y[at] = x[at[: a["batch_dims"]]][tuple(index[at])]
    return y


def adv_index(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    x, shape = arrays[0], np.broadcast_shapes(*(i.shape for i in arrays[1:]))
    y = np.empty(outs[0].shape, x.dtype)
    indices = [np.broadcast_to(i, shape) for i in arrays[1:]]
    for at in each(shape):
        y[at] = x[tuple(i[at] for i in indices)]
    return y


def one_hot(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    (x,) = arrays
    y = np.full((*x.shape, a["depth"]), a["off_value"], outs[0].dtype)
    for at in each(x.shape):
        if 0 <= x[at] < a["depth"]:
            y[at][int(x[at])] = a["on_value"]
    return np.moveaxis(y, -1, a["axis"])


def unravel_index(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    rest, coordinates = arrays[0].astype(np.int64), []
    for d in arrays[1][::-1]:
        coordinates.append(rest % d)
        rest = rest // d
    return np.stack(coordinates[::-1]).astype(arrays[0].dtype)


PLAIN: dict[str, Any] = {
    "take": take,
    "gather": gather,
    "gather_nd": gather_nd,
    "adv_index": adv_index,
    "one_hot": one_hot,
    "unravel_index": unravel_index,
}
