"""Kernels of transposed convolutions, gradients of convolutions, and dilation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .bounded import UNIT_ROUNDOFF, Bounded
from .convolution import channels_first, correlated, laid_out, oriented, stretched, windows
from .elementwise import Attrs, Kernel
from .matrix import contracted


def _terms(kernel: Sequence[int], attrs: Attrs) -> int:
    """Returns the largest number of the kernel's taps that contribute to one result.

    Taps contribute together if their distance is a multiple of the stride.
    """
    meeting = 1
    for k, s, d in zip(kernel, attrs["strides"], attrs["dilation"]):
        meeting *= -(-k // (s // math.gcd(s, d)))
    return meeting


def conv_transpose(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Slides the flipped kernel over the image with stride - 1 zeros between the image's elements.

    Source: Dumoulin and Visin, "A guide to convolution arithmetic", chapter 4.
    """
    x = channels_first(inputs[0], attrs["data_layout"])
    w = oriented(inputs[1], attrs["kernel_layout"], "IO")
    groups = attrs["groups"]
    total, outer, *kernel = w.shape
    flip = (slice(None),) * 3 + (slice(None, None, -1),) * len(kernel)

    def turned(v: np.ndarray) -> np.ndarray:
        grouped = np.swapaxes(v.reshape(groups, total // groups, outer, *kernel), 1, 2)
        return grouped[flip].reshape(groups * outer, total // groups, *kernel)

    n = len(kernel)
    reach = [(k - 1) * d for k, d in zip(kernel, attrs["dilation"])]
    before = [r - p for r, p in zip(reach, attrs["padding"][:n])]
    after = [r - p + e for r, p, e in zip(reach, attrs["padding"][n:], attrs["output_padding"])]
    terms = total // groups * _terms(kernel, attrs)
    steps = ((1,) * n, (*before, *after), attrs["dilation"], attrs["strides"])
    return laid_out(correlated(x, w.map(turned), groups, terms, *steps), attrs["data_layout"])


def conv2d_backward_weight(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Returns the gradient of each weight.

    It sums, over the results that the weight contributes to, the result's gradient times the
    element of the image by which the weight is multiplied for it.
    """
    grad = channels_first(inputs[0], attrs["grad_layout"])
    x = channels_first(inputs[1], attrs["data_layout"])
    groups, kernel = attrs["groups"], attrs["kernel_size"]
    batch, outer = grad.shape[:2]
    inner = x.shape[1] // groups
    terms = grad.value.size // outer

    def contraction(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        view = windows(q, kernel, attrs["strides"], attrs["padding"], attrs["dilation"])
        out = view.shape[2:4]
        # [groups, O / groups, batch * out] times [groups, batch * out, I * kernel]
        taps = inner * int(np.prod(kernel))
        view = view.reshape(batch, groups, inner, *out, *kernel).transpose(1, 0, 3, 4, 2, 5, 6)
        left = p.reshape(batch, groups, outer // groups, *out).transpose(1, 2, 0, 3, 4)
        gradient = left.reshape(groups, outer // groups, terms) @ view.reshape(groups, terms, taps)
        return gradient.reshape(outer, inner, *kernel)

    y = contracted(contraction, grad, x, terms)
    axes = ["OIHW".index(a) for a in attrs["kernel_layout"]]
    return y.map(lambda v: v.transpose(axes))


def dilate(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    strides, fill = attrs["strides"], attrs["dilation_value"]
    # The fill value is rounded to the dtype.
    rounding = UNIT_ROUNDOFF[x.dtype] * abs(fill) if x.is_float else 0.0
    return Bounded(
        stretched(x.value, strides, fill),
        stretched(x.error, strides, rounding),
        stretched(x.ambiguous, strides, False),
        x.dtype,
    )


KERNELS: dict[str, Kernel] = {
    "nn.conv1d_transpose": conv_transpose,
    "nn.conv2d_transpose": conv_transpose,
    "nn.conv3d_transpose": conv_transpose,
    "nn.conv2d_backward_weight": conv2d_backward_weight,
    "nn.dilate": dilate,
}
