"""Plain evaluations of pooling in 1 and 3 dimensions and to a given size, window by window."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .convolution_nd import back, first
from .sums import Sum

#: Maps an axis and a position to the elements in the window and the divisor of the average.
Taps = Callable[[int, int], tuple[list[int], int]]


def each_window(arrays: Any, a: dict[str, Any], outs: Any, add: Sum | None, taps: Taps) -> np.ndarray:
    x = first(arrays[0], a["layout"])
    y = np.empty(first(np.empty(outs[0].shape), a["layout"]).shape, x.dtype)
    for position in np.ndindex(*y.shape[2:]):
        rows, counts = zip(*(taps(axis, i) for axis, i in enumerate(position)))
        window = x
        for axis, row in enumerate(rows):
            window = window.take(row, axis=2 + axis)
        terms = window.reshape(*x.shape[:2], -1)
        pooled = terms.max(axis=-1) if add is None else add(terms) / x.dtype.type(math.prod(counts))
        y[(slice(None), slice(None), *position)] = pooled
    return back(y, a["layout"])


def pool(average: bool) -> Any:
    def evaluate(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
        sizes = first(arrays[0], a["layout"]).shape[2:]

        def taps(axis: int, i: int) -> tuple[list[int], int]:
            size, before, after = sizes[axis], a["padding"][axis], a["padding"][axis + len(sizes)]
            start, step = i * a["strides"][axis] - before, a["dilation"][axis]
            reached = [start + j * step for j in range(a["pool_size"][axis])]
            inside = [r for r in reached if 0 <= r < size]
            if a.get("count_include_pad"):
                return inside, sum(r < size + after for r in reached)
            return inside, len(inside)

        return each_window(arrays, a, outs, add if average else None, taps)

    return evaluate


def adaptive(average: bool) -> Any:
    def evaluate(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
        sizes = first(arrays[0], a["layout"]).shape[2:]
        wanted = a["output_size"] or sizes

        def taps(axis: int, i: int) -> tuple[list[int], int]:
            # Element e fills the interval from e / n to (e + 1) / n: keep those that meet the i-th
            # interval of o.
            n, o = sizes[axis], wanted[axis]
            row = [e for e in range(n) if e * o < (i + 1) * n and (e + 1) * o > i * n]
            return row, len(row)

        return each_window(arrays, a, outs, add if average else None, taps)

    return evaluate


PLAIN: dict[str, Any] = {
    **{f"nn.max_pool{n}d": pool(False) for n in (1, 3)},
    **{f"nn.avg_pool{n}d": pool(True) for n in (1, 3)},
    **{f"nn.adaptive_max_pool{n}d": adaptive(False) for n in (1, 2, 3)},
    **{f"nn.adaptive_avg_pool{n}d": adaptive(True) for n in (1, 2, 3)},
}
