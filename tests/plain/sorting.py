"""Plain evaluations of sorting and of search in sorted sequences."""

from __future__ import annotations

import bisect
import itertools
from typing import Any

import numpy as np

from .sums import Sum


def ordered(x: np.ndarray, a: dict[str, Any]) -> np.ndarray:
    """Returns the sorted positions of each row, by Python's stable sort."""
    rows = np.moveaxis(x, a["axis"], -1)
    positions = np.empty(rows.shape, np.int64)
    for at in itertools.product(*map(range, rows.shape[:-1])):
        row = rows[at].tolist()
        positions[at] = sorted(range(len(row)), key=lambda i, row=row: row[i] if a["is_ascend"] else -row[i])
    return np.moveaxis(positions, -1, a["axis"])


def topk(arrays: Any, a: Any, outs: Any, add: Sum) -> Any:
    (x,) = arrays
    at = ordered(x, a)
    at = at if a["k"] < 1 else np.take(at, range(a["k"]), axis=a["axis"])
    values, indices = np.take_along_axis(x, at, a["axis"]), at.astype(a["dtype"])
    return {"both": (values, indices), "values": values, "indices": indices}[a["ret_type"]]


def searched(sequence: np.ndarray, x: np.ndarray, right: bool, dtype: str) -> np.ndarray:
    find = bisect.bisect_right if right else bisect.bisect_left
    y = np.empty(x.shape, dtype)
    for at in itertools.product(*map(range, x.shape)):
        row = sequence if sequence.ndim == 1 else sequence[at[:-1]]
        y[at] = find(row.tolist(), float(x[at]))
    return y


PLAIN: dict[str, Any] = {
    "sort": lambda arrays, a, outs, add: np.take_along_axis(arrays[0], ordered(arrays[0], a), a["axis"]),
    "argsort": lambda arrays, a, outs, add: ordered(arrays[0], a).astype(a["dtype"]),
    "topk": topk,
    "searchsorted": lambda arrays, a, outs, add: searched(*arrays, a["right"], a["dtype"]),
    "bucketize": lambda arrays, a, outs, add: searched(
        arrays[1], arrays[0], a["right"], outs[0].dtype
    ),
}
