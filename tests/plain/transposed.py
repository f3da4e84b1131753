"""Plain evaluations of transposed convolutions and gradients, tap by tap, and of dilation."""

from __future__ import annotations

from typing import Any

import numpy as np

from .convolution_nd import back, first, padded
from .sums import Sum


def conv_transpose(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
    """Adds every element, multiplied by the kernel, at its positions of the result."""
    x, groups = first(arrays[0], a["data_layout"]), a["groups"]
    spatial = a["data_layout"].strip("NC")
    w = np.transpose(arrays[1], [a["kernel_layout"].index(c) for c in "IO" + spatial])
    inner, outer, kernel = len(w) // groups, w.shape[1], w.shape[2:]
    n = len(kernel)
    whole = [
        (size - 1) * s + (k - 1) * d + 1 + e
        for size, s, k, d, e in zip(x.shape[2:], a["strides"], kernel, a["dilation"], a["output_padding"])
    ]
    terms = np.zeros((len(x), outer * groups, *whole, inner * int(np.prod(kernel))), x.dtype)
    for number, (i, *tap) in enumerate(np.ndindex(inner, *kernel)):
        axes = zip(tap, a["dilation"], a["strides"], x.shape[2:])
        at = tuple(slice(t * d, t * d + (size - 1) * s + 1, s) for t, d, s, size in axes)
        for o in range(outer * groups):
            c = o // outer * inner + i
            terms[(slice(None), o, *at, number)] = x[:, c] * w[(c, o % outer, *tap)]
    kept = [slice(b, size - e) for size, b, e in zip(whole, a["padding"][:n], a["padding"][n:])]
    sums = add(terms)[(slice(None), slice(None), *kept)].astype(x.dtype)
    return back(sums, a["data_layout"])


def conv2d_backward_weight(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
    grad, x = arrays[0], padded(arrays[1], a)
    outer, inner, *_ = outs[0].shape
    (sh, sw), (dh, dw) = a["strides"], a["dilation"]
    _, _, height, width = grad.shape
    y = np.empty(outs[0].shape, x.dtype)
    for o, i, p, q in np.ndindex(*y.shape):
        c = o // (outer // a["groups"]) * inner + i
        window = x[:, c, p * dh :: sh, q * dw :: sw][:, :height, :width]
        y[o, i, p, q] = add((window * grad[:, o]).reshape(1, -1))[0]
    return y


def dilate(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
    y = np.full(outs[0].shape, a["dilation_value"], arrays[0].dtype)
    for position in np.ndindex(*arrays[0].shape):
        y[tuple(p * s for p, s in zip(position, a["strides"]))] = arrays[0][position]
    return y


PLAIN: dict[str, Any] = {
    **{f"nn.conv{n}d_transpose": conv_transpose for n in (1, 2, 3)},
    "nn.conv2d_backward_weight": conv2d_backward_weight,
    "nn.dilate": dilate,
}
