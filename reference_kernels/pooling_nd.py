"""Kernels of pooling in one and three dimensions, and of pooling to a given output size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .bounded import Bounded
from .convolution import channels_first, laid_out
from .elementwise import Attrs, Kernel
from .pooling import average, avg_pool, largest, lowest, max_pool


def _divided(x: Bounded, sizes: Sequence[int], fill: float) -> tuple[Bounded, np.ndarray]:
    """Divides x [N, C, *in] into windows [N, C, *out, *longest], and counts their elements [*out].

    Output i of o covers the elements from floor(i * n / o) to ceil((i + 1) * n / o) of n, as in
    TVM and PyTorch; neighbouring windows may overlap. Windows shorter than the longest are filled
    up with `fill`.
    """
    axes = len(sizes)
    index: list[Any] = [slice(None), slice(None)]
    inside, count = np.ones((1,) * 2 * axes, bool), np.ones((1,) * axes)
    for axis, (n, o) in enumerate(zip(x.shape[2:], sizes)):
        i = np.arange(o)
        first, end = i * n // o, -(-(i + 1) * n // o)
        taps = first[:, None] + np.arange(np.max(end - first))
        shape = np.ones(2 * axes, int)
        shape[[axis, axes + axis]] = taps.shape
        index.append(np.minimum(taps, n - 1).reshape(shape))
        inside = inside & (taps < end[:, None]).reshape(shape)
        count = count * (end - first).reshape(shape[:axes])

    def view(v: np.ndarray, outside: float) -> np.ndarray:
        return np.where(inside, v[tuple(index)], np.array(outside, v.dtype))

    return Bounded(view(x.value, fill), view(x.error, 0), view(x.ambiguous, 0), x.dtype), count


def adaptive_max_pool(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x = channels_first(inputs[0], attrs["layout"])
    view, _ = _divided(x, attrs["output_size"] or x.shape[2:], lowest(x))
    return laid_out(largest(view), attrs["layout"])


def adaptive_avg_pool(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x = channels_first(inputs[0], attrs["layout"])
    view, count = _divided(x, attrs["output_size"] or x.shape[2:], 0.0)
    return laid_out(average(view, count), attrs["layout"])


KERNELS: dict[str, Kernel] = {
    "nn.max_pool1d": max_pool,
    "nn.max_pool3d": max_pool,
    "nn.avg_pool1d": avg_pool,
    "nn.avg_pool3d": avg_pool,
    **{f"nn.adaptive_max_pool{n}d": adaptive_max_pool for n in (1, 2, 3)},
    **{f"nn.adaptive_avg_pool{n}d": adaptive_avg_pool for n in (1, 2, 3)},
}
