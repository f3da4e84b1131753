"""Kernels of pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .bounded import Bounded, rounded
from .convolution import NCHW, windows
from .elementwise import Attrs, Kernel
from .reduction import chosen, summed


def _pooled(x: Bounded, attrs: Attrs, fill: float) -> Bounded:
    """The windows of x, [N, C, OH, OW, kh, kw]; what lies in the padding is `fill`, exactly.

    With ceil_mode the image is extended by stride - 1 at its end, as TVM does.
    """
    top, left, bottom, right = attrs["padding"]
    if attrs["ceil_mode"]:
        bottom, right = bottom + attrs["strides"][0] - 1, right + attrs["strides"][1] - 1
    padding = (top, left, bottom, right)

    def view(v: np.ndarray, outside: float) -> np.ndarray:
        moved = v.transpose(NCHW[attrs["layout"]])
        return windows(
            moved, attrs["pool_size"], attrs["strides"], padding, attrs["dilation"], outside
        )

    return Bounded(view(x.value, fill), view(x.error, 0), view(x.ambiguous, 0), x.dtype)


def _restored(y: Bounded, attrs: Attrs) -> Bounded:
    back = tuple(int(i) for i in np.argsort(NCHW[attrs["layout"]]))
    return y.map(lambda v: v.transpose(back))


def max_pool2d(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    fill = -np.inf if x.is_float else np.iinfo(x.dtype).min
    return _restored(chosen(_pooled(x, attrs, fill), (4, 5), False, True), attrs)


def avg_pool2d(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """The sum of each window by the number of its elements within the image, or, with
    count_include_pad, within the image and the padding (not what ceil_mode adds to it)."""
    (x,) = inputs
    view = _pooled(x, attrs, 0.0)
    h, w = (x.shape[a] for a in NCHW[attrs["layout"]][2:])
    image = np.ones((1, 1, h, w))
    if attrs["count_include_pad"]:
        top, left, bottom, right = attrs["padding"]
        image = np.ones((1, 1, h + top + bottom, w + left + right))
        inside = dict(attrs, padding=(0, 0, 0, 0), layout="NCHW")
    else:
        inside = dict(attrs, layout="NCHW")
    zero = np.zeros(image.shape)
    counted = _pooled(Bounded(image, zero, zero > 0, x.dtype), inside, 0.0)
    count = counted.value.sum(axis=(4, 5))
    total = summed(view, (4, 5), False)
    with np.errstate(all="ignore"):
        error = np.where(total.ambiguous, 0.0, total.error) / count
        y = rounded(total.value / count, error, total.ambiguous, x.dtype, 3.0)
    return _restored(y, attrs)


def _image_axes(attrs: Attrs) -> tuple[int, ...]:
    return tuple(NCHW[attrs["layout"]][2:])


def global_avg_pool2d(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    axes = _image_axes(attrs)
    return summed(x, axes, True, float(x.shape[axes[0]] * x.shape[axes[1]]), 3.0)


def global_max_pool2d(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    return chosen(x, _image_axes(attrs), True, True)


KERNELS: dict[str, Kernel] = {
    "nn.max_pool2d": max_pool2d,
    "nn.avg_pool2d": avg_pool2d,
    "nn.global_avg_pool2d": global_avg_pool2d,
    "nn.global_max_pool2d": global_max_pool2d,
}
