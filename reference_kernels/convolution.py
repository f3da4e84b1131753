"""Kernels of convolutions, and the windows they share with pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .bounded import Bounded
from .elementwise import Attrs, Kernel
from .matrix import contracted

#: Axes of (batch, channel, height, width) in a layout.
NCHW = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 3, 1, 2)}


def windows(
    x: np.ndarray,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    fill: float = 0.0,
) -> np.ndarray:
    """The windows of x [N, C, H, W] as a view [N, C, OH, OW, kh, kw].

    padding: top, left, bottom, right, filled with `fill`. Windows that do not fit are left out.
    """
    top, left, bottom, right = padding
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    view = np.lib.stride_tricks.sliding_window_view(x, extent, axis=(2, 3))
    return view[:, :, :: strides[0], :: strides[1], :: dilation[0], :: dilation[1]]


def conv2d(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, w = inputs
    layout, groups = attrs["data_layout"], attrs["groups"]
    x = x.map(lambda v: v.transpose(NCHW[layout]))
    w = w.map(lambda v: v.transpose([attrs["kernel_layout"].index(a) for a in "OIHW"]))
    outer, inner, kh, kw = w.shape
    terms = inner * kh * kw

    def contraction(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        view = windows(p, (kh, kw), attrs["strides"], attrs["padding"], attrs["dilation"])
        n, _, oh, ow = view.shape[:4]
        # [N, groups, OH * OW, terms] times [groups, terms, O / groups]
        view = view.reshape(n, groups, inner, oh * ow, kh, kw).transpose(0, 1, 3, 2, 4, 5)
        out = view.reshape(n, groups, oh * ow, terms) @ np.swapaxes(
            q.reshape(groups, outer // groups, terms), 1, 2
        )
        return np.swapaxes(out, 2, 3).reshape(n, outer, oh, ow)

    y = contracted(contraction, x, w, terms, attrs.get("out_dtype"))
    back = tuple(int(i) for i in np.argsort(NCHW[layout]))
    return y.map(lambda v: v.transpose(back))


KERNELS: dict[str, Kernel] = {"nn.conv2d": conv2d}
