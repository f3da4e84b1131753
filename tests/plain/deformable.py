"""Plain evaluation of deformable convolution, sample by sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .convolution_nd import back, first
from .sums import Sum


def sample(image: np.ndarray, y: Any, x: Any) -> np.ndarray:
    """Samples all channels of an image [C, H, W] at a position: bilinear inside the image, 0
    outside."""
    _, h, w = image.shape
    total = np.zeros(len(image), image.dtype)
    if y < 0 or x < 0 or y >= h or x >= w:
        return total
    row, column = math.floor(y), math.floor(x)
    fy, fx = y - y.dtype.type(row), x - x.dtype.type(column)
    for r, wy in ((row, 1 - fy), (row + 1, fy)):
        for c, wx in ((column, 1 - fx), (column + 1, fx)):
            if r < h and c < w:
                total = total + wy * wx * image[:, r, c]
    return total


def deformable_conv2d(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
    x, offset = (first(v, a["data_layout"]) for v in arrays[:2])
    w = arrays[2]
    if a["kernel_layout"] == "HWIO":
        w = np.moveaxis(w, (3, 2), (0, 1))
    kernel, groups, dtype = w.shape[2:], a["deformable_groups"], x.dtype
    out = first(np.empty(outs[0].shape), a["data_layout"]).shape
    per_group, taps = x.shape[1] // groups, kernel[0] * kernel[1]
    terms = np.empty((*out, x.shape[1], taps), dtype)
    for n, i, j, g, tap in np.ndindex(out[0], *out[2:], groups, taps):
        at = []
        for axis, position in enumerate((i, j)):
            t = np.unravel_index(tap, kernel)[axis]
            base = position * a["strides"][axis] - a["padding"][axis] + int(t) * a["dilation"][axis]
            at.append(dtype.type(base) + offset[n, 2 * (g * taps + tap) + axis, i, j])
        channels = slice(g * per_group, (g + 1) * per_group)
        sampled = sample(x[n, channels], *at)
        terms[n, :, i, j, channels, tap] = sampled * w.reshape(*w.shape[:2], -1)[:, channels, tap]
    return back(add(terms.reshape(*out, -1)).astype(dtype), a["data_layout"])


PLAIN: dict[str, Any] = {"nn.deformable_conv2d": deformable_conv2d}
