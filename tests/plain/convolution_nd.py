"""Plain evaluations of convolutions in one and three dimensions, window by window."""

from __future__ import annotations

from typing import Any

import numpy as np

from .sums import Sum


def first(x: np.ndarray, layout: str) -> np.ndarray:
    """Returns x with channels first."""
    return np.moveaxis(x, -1, 1) if layout.endswith("C") else x


def back(y: np.ndarray, layout: str) -> np.ndarray:
    return np.moveaxis(y, 1, -1) if layout.endswith("C") else y


def slides(position: Any, kernel: Any, a: dict[str, Any]) -> tuple[slice, ...]:
    """Returns the window of the padded image from which the result at a position is computed."""
    steps = zip(position, kernel, a["strides"], a["dilation"])
    return tuple(slice(p * s, p * s + (k - 1) * d + 1, d) for p, k, s, d in steps)


def padded(x: np.ndarray, a: dict[str, Any]) -> np.ndarray:
    n = x.ndim - 2
    before, after = a["padding"][:n], a["padding"][n:]
    out = np.zeros((*x.shape[:2], *(d + b + e for d, b, e in zip(x.shape[2:], before, after))), x.dtype)
    out[(..., *(slice(b, b + d) for b, d in zip(before, x.shape[2:])))] = x
    return out


def plain_conv(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
    x, w = first(arrays[0], a["data_layout"]), arrays[1]
    if a["kernel_layout"].endswith("IO"):
        w = np.moveaxis(w, (-1, -2), (0, 1))
    image, per_group = padded(x, a), len(w) // a["groups"]
    out = first(np.empty(outs[0].shape), a["data_layout"]).shape
    terms = np.empty((*out, w[0].size), x.dtype)
    for position in np.ndindex(*out[2:]):
        window = image[(slice(None), slice(None), *slides(position, w.shape[2:], a))]
        for o in range(len(w)):
            start = o // per_group * w.shape[1]
            products = window[:, start : start + w.shape[1]] * w[o]
            terms[(slice(None), o, *position)] = products.reshape(len(x), -1)
    return back(add(terms).astype(x.dtype), a["data_layout"])


PLAIN: dict[str, Any] = {"nn.conv1d": plain_conv, "nn.conv3d": plain_conv}
