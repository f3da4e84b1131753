"""Plain evaluations of elements written by index or slice, and masked or reversed along
sequences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .sums import Sum


def each(shape: Any) -> Any:
    return itertools.product(*map(range, shape))


def put(y: np.ndarray, at: Any, updates: list[Any], how: str, add: Sum) -> None:
    """Applies all updates of one position, one after the other or in the order of `add`."""
    if how == "add":
        y[at] = add(np.array([y[at], *updates], y.dtype))
        return
    for u in updates:
        if how == "mul":
            y[at] = y[at] * u
        elif how == "mean":
            y[at] = (y[at] + u) / y.dtype.type(2)
        else:
            y[at] = {"update": lambda old, new: new, "min": min, "max": max}[how](y[at], u)


def scattered(x: np.ndarray, places: Any, how: str, add: Sum) -> np.ndarray:
    """Applies `places`, pairs of (position, update), of which several may have the same
    position."""
    y, updates = x.copy(), {}  # type: ignore[var-annotated]
    for at, u in places:
        updates.setdefault(at, []).append(u)
    for at, new in updates.items():
        put(y, at, new, how, add)
    return y


def scatter_elements(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    x, index, updates = arrays
    axis = a["axis"] % x.ndim
    places = [
        (at[:axis] + (int(index[at]),) + at[axis + 1 :], updates[at]) for at in each(index.shape)
    ]
    return scattered(x, places, a["reduction"], add)


def scatter_nd(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    x, index, updates = arrays
    index = index if a["index_last"] else np.moveaxis(index, 0, -1)
    k = index.ndim - 1
    places = [(tuple(index[at[:k]].tolist()) + at[k:], updates[at]) for at in each(updates.shape)]
    return scattered(x, places, a["mode"], add)


def index_put(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    x, indices, values = arrays[0], arrays[1:-1], arrays[-1]
    places = [(tuple(int(i[j]) for i in indices), values[j]) for j in range(len(values))]
    return scattered(x, places, "add" if a["accumulate"] else "update", add)


def strided_set(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    x, values = arrays
    lines = []
    for n, b, e, s in zip(x.shape, a["begin"], a["end"], a["strides"]):
        low, high = (0, n) if s > 0 else (-1, n - 1)
        b, e = (min(max(v + n if v < 0 else v, low), high) for v in (b, e))
        lines.append(list(range(b, e, s)))
    y = x.copy()
    y[np.ix_(*lines)] = values
    return y


def slice_scatter(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    y, axis = arrays[0].copy(), a["axis"] % arrays[0].ndim
    for at in each(arrays[1].shape):
        place = a["start"] + at[axis] * a["step"]
        y[at[:axis] + (place,) + at[axis + 1 :]] = arrays[1][at]
    return y


def matrix_set_diag(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    """Writes one diagonal after the other, each cut out of its padded row."""
    x, diagonal = arrays
    y = x.copy()
    band = isinstance(a["k"], tuple)
    low, high = a["k"] if band else (a["k"], a["k"])
    for k in range(low, high + 1):
        rows, columns = np.nonzero(np.eye(*x.shape[-2:], k=k))
        line = diagonal[..., high - k, :] if band else diagonal
        left = a["align"].split("_")[0 if k >= 0 else 1] == "LEFT"
        y[..., rows, columns] = line[..., : len(rows)] if left else line[..., line.shape[-1] - len(rows) :]
    return y


def sequence_mask(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    x, lengths = arrays
    y = x.copy()
    for i, n in enumerate(lengths):
        if a["axis"] == 0:
            y[n:, i] = a["mask_value"]
        else:
            y[i, n:] = a["mask_value"]
    return y


def reverse_sequence(arrays: Any, a: Any, outs: Any, add: Sum) -> np.ndarray:
    x, lengths = arrays
    y = np.moveaxis(x.copy(), (a["batch_axis"], a["seq_axis"]), (0, 1))
    for i, n in enumerate(lengths):
        n = max(int(n), 1)
        y[i, :n] = y[i, :n][::-1].copy()
    return np.moveaxis(y, (0, 1), (a["batch_axis"], a["seq_axis"]))


PLAIN: dict[str, Any] = {
    "scatter_elements": scatter_elements,
    "scatter_nd": scatter_nd,
    "index_put": index_put,
    "strided_set": strided_set,
    "slice_scatter": slice_scatter,
    "matrix_set_diag": matrix_set_diag,
    "sequence_mask": sequence_mask,
    "reverse_sequence": reverse_sequence,
}
