"""Kernels of pooling, with any number of spatial axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .bounded import Bounded, rounded
from .convolution import channels_first, image_axes, laid_out, windows
from .elementwise import Attrs, Kernel
from .reduction import chosen, quotient, summed


def _pooled(x: Bounded, attrs: Attrs, fill: float) -> Bounded:
    """Returns the windows of x [N, C, *in] as [N, C, *out, *kernel], with `fill` in the padding.

    With ceil_mode, stride - 1 elements are added at the end of each axis, as TVM does.
    """
    n = len(attrs["strides"])
    after = attrs["padding"][n:]
    if attrs["ceil_mode"]:
        after = [a + s - 1 for a, s in zip(after, attrs["strides"])]
    padding = (*attrs["padding"][:n], *after)

    def view(v: np.ndarray, outside: float) -> np.ndarray:
        steps = (attrs["pool_size"], attrs["strides"], padding, attrs["dilation"])
        return windows(v, *steps, outside)

    return Bounded(view(x.value, fill), view(x.error, 0), view(x.ambiguous, 0), x.dtype)


def lowest(x: Bounded) -> float:
    """Returns a lower limit of all elements: -infinity, or the dtype's lowest integer."""
    return -np.inf if x.is_float else float(np.iinfo(x.dtype).min)


def largest(view: Bounded) -> Bounded:
    """Returns the largest element of each window of [N, C, *out, *kernel], as [N, C, *out]."""
    n = len(view.shape) // 2
    return chosen(view, tuple(range(n + 1, 2 * n)), False, True)


def average(view: Bounded, count: np.ndarray) -> Bounded:
    """Divides the sum of each window of [N, C, *out, *kernel] by a count [*out].

    The division of floats is granted three roundings.
    """
    n = len(view.shape) // 2
    total = summed(view, tuple(range(n + 1, 2 * n)), False)
    if not view.is_float:
        return quotient(total, count.astype(np.int64))
    error = np.where(total.ambiguous, 0.0, total.error) / count
    return rounded(total.value / count, error, total.ambiguous, view.dtype, 3.0)


def max_pool(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x = channels_first(inputs[0], attrs["layout"])
    return laid_out(largest(_pooled(x, attrs, lowest(x))), attrs["layout"])


def avg_pool(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Divides the sum of each window by the number of its elements within the image.

    With count_include_pad, elements in the padding count too, but not those that ceil_mode adds.
    """
    x = channels_first(inputs[0], attrs["layout"])
    sizes, padding = np.array(x.shape[2:]), np.array(attrs["padding"])
    if attrs["count_include_pad"]:
        sizes = sizes + padding.reshape(2, -1).sum(axis=0)
        padding = np.zeros_like(padding)
    ones = np.ones((1, 1, *sizes))
    zero = np.zeros(ones.shape)
    image = Bounded(ones, zero, zero > 0, x.dtype)
    counted = _pooled(image, dict(attrs, padding=tuple(padding)), 0.0).value
    axes = tuple(range(2 + len(sizes), counted.ndim))
    y = average(_pooled(x, attrs, 0.0), counted.sum(axis=axes)[0, 0])
    return laid_out(y, attrs["layout"])


def global_avg_pool(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    axes = image_axes(attrs["layout"])[2:]
    return summed(x, axes, True, float(np.prod([x.shape[a] for a in axes])), 3.0)


def global_max_pool(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    return chosen(x, image_axes(attrs["layout"])[2:], True, True)


KERNELS: dict[str, Kernel] = {
    "nn.max_pool2d": max_pool,
    "nn.avg_pool2d": avg_pool,
    "nn.global_avg_pool2d": global_avg_pool,
    "nn.global_max_pool2d": global_max_pool,
}
