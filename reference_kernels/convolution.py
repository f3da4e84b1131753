"""Kernel of nn.conv2d, and the helpers that it shares with other convolutions and with pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from .bounded import Bounded
from .elementwise import Attrs, Kernel
from .matrix import contracted

#: Letters of the spatial axes in a layout, by the number of spatial axes.
SPATIAL = {1: "W", 2: "HW", 3: "DHW"}


def image_axes(layout: str) -> tuple[int, ...]:
    """Returns the positions of batch, channel and the spatial axes, in this order, in a layout."""
    return tuple(layout.index(a) for a in "NC" + SPATIAL[len(layout) - 2])


def channels_first(x: Bounded, layout: str) -> Bounded:
    """Transposes x from a layout to [N, C, spatial ...]."""
    return x.map(lambda v: v.transpose(image_axes(layout)))


def laid_out(y: Bounded, layout: str) -> Bounded:
    """Transposes y from [N, C, spatial ...] to a layout."""
    back = tuple(int(i) for i in np.argsort(image_axes(layout)))
    return y.map(lambda v: v.transpose(back))


def oriented(w: Bounded, layout: str, wanted: str = "OI") -> Bounded:
    """Transposes a weight from a layout to [O, I, spatial ...], or to [I, O, ...] for "IO"."""
    axes = [layout.index(a) for a in wanted + SPATIAL[len(layout) - 2]]
    return w.map(lambda v: v.transpose(axes))


def windows(
    x: np.ndarray,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    fill: float = 0,
) -> np.ndarray:
    """Returns the windows of x [N, C, *in] as a view [N, C, *out, *kernel].

    padding: the elements added before each axis, then those added after each, filled with `fill`; less
    than none for those cut off, as by the padding of a transposed convolution. Windows that do not fit
    are left out.
    """
    n = len(kernel)
    kept = [slice(max(0, -b), d - max(0, -a)) for b, d, a in zip(padding[:n], x.shape[2:], padding[n:])]
    x = x[(slice(None),) * 2 + tuple(kept)]
    padding = [max(0, p) for p in padding]
    sizes = [b + d + a for b, d, a in zip(padding[:n], x.shape[2:], padding[n:])]
    padded = np.full((*x.shape[:2], *sizes), fill, x.dtype)
    padded[(slice(None),) * 2 + tuple(slice(b, b + d) for b, d in zip(padding, x.shape[2:]))] = x
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    out = [(size - r) // s + 1 for size, r, s in zip(sizes, reach, strides)]
    steps = padded.strides[2:]
    moved = (*(t * s for t, s in zip(steps, strides)), *(t * d for t, d in zip(steps, dilation)))
    return np.lib.stride_tricks.as_strided(
        padded, (*x.shape[:2], *out, *kernel), (*padded.strides[:2], *moved), writeable=False
    )


def stretched(x: np.ndarray, strides: Sequence[int], fill: float = 0) -> np.ndarray:
    """Returns x with s - 1 elements `fill` between neighbours along each of its last axes."""
    if all(s == 1 for s in strides):
        return x
    lead = x.ndim - len(strides)
    sizes = [(d - 1) * s + 1 for d, s in zip(x.shape[lead:], strides)]
    out = np.full((*x.shape[:lead], *sizes), fill, x.dtype)
    out[(Ellipsis,) + tuple(slice(None, None, s) for s in strides)] = x
    return out


def correlated(
    x: Bounded,
    w: Bounded,
    groups: int,
    terms: int,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    stretch: Sequence[int],
    dtype: str | None = None,
) -> Bounded:
    """Slides w [O, I, *kernel] over x [N, groups * I, *in], which is stretched and zero-padded.

    stretch: x gets s - 1 zeros between neighbours along each spatial axis. terms: the number of
    products summed to one result. dtype: the dtype of the sum, by default that of x.
    """
    outer, inner, *kernel = w.shape
    taps = inner * math.prod(kernel)
    # Puts the channels of a group behind the positions of its windows.
    axes = (0, 1, *range(3, 3 + len(kernel)), 2, *range(3 + len(kernel), 3 + 2 * len(kernel)))

    def contraction(p: np.ndarray, q: np.ndarray, fill: float = 0) -> np.ndarray:
        view = windows(stretched(p, stretch, fill), kernel, strides, padding, dilation, fill)
        n = view.shape[0]
        out = view.shape[2 : 2 + len(kernel)]
        # [N, groups, *out, taps] times [groups, taps, O / groups]
        view = view.reshape(n, groups, inner, *out, *kernel).transpose(axes)
        sums = view.reshape(n, groups, math.prod(out), taps) @ (
            q.reshape(groups, outer // groups, taps).swapaxes(1, 2)
        )
        return sums.swapaxes(2, 3).reshape(n, outer, *out)

    y = contracted(contraction, x, w, terms, dtype)
    return unless_skipped(y, lambda v: contraction(np.zeros(x.shape), v, 1.0), w)


def unless_skipped(y: Bounded, padding: Callable[[np.ndarray], np.ndarray], w: Bounded) -> Bounded:
    """Returns y, made ambiguous where a weight that is infinite or NaN meets padding.

    Multiplied by the zeros of the padding it gives NaN; an implementation that skips the padding
    gives another value. padding: convolves a weight with an image that is 1 in the padding and 0
    elsewhere.
    """
    if np.isfinite(w.value).all():
        return y
    open_ = padding(1.0 * ~np.isfinite(w.value)) > 0
    return replace(y, ambiguous=y.ambiguous | open_, error=np.where(open_, np.inf, y.error))


def conv(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes a convolution with any number of spatial axes."""
    x = channels_first(inputs[0], attrs["data_layout"])
    w = oriented(inputs[1], attrs["kernel_layout"])
    if attrs["kernel_layout"] == "HWOI" and attrs["groups"] > 1:
        # Depthwise: O is the number of channels, I the number of results of each channel.
        w = w.map(lambda v: v.reshape(-1, 1, *v.shape[2:]))
    steps = (attrs["strides"], attrs["padding"], attrs["dilation"], (1,) * (len(w.shape) - 2))
    terms = math.prod(w.shape[1:])
    y = correlated(x, w, attrs["groups"], terms, *steps, attrs.get("out_dtype"))
    return laid_out(y, attrs["data_layout"])


KERNELS: dict[str, Kernel] = {"nn.conv2d": conv}
