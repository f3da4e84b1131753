"""Operators evaluated by SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal
import scipy.special
import scipy.stats


def _unary(f: Any) -> Any:
    return lambda arrays, a, outs: np.asarray(f(arrays[0]))


def _along(f: Any) -> Any:
    return lambda arrays, a, outs: f(arrays[0], axis=a["axis"])


def _softplus(arrays: list[np.ndarray], a: dict[str, Any], outs: Any) -> np.ndarray:
    z = arrays[0] * a["beta"]
    return np.where(z > a["threshold"], arrays[0], -scipy.special.log_expit(-z) / a["beta"])


def _logsumexp(arrays: list[np.ndarray], a: dict[str, Any], outs: Any) -> Any:
    return np.asarray(scipy.special.logsumexp(arrays[0], axis=a["axis"], keepdims=a["keepdims"]))


def _spread(finish: Any) -> Any:
    """Returns an evaluation over one axis or all axes; it returns None for several."""

    def evaluate(arrays: list[np.ndarray], a: dict[str, Any], outs: Any) -> Any:
        (x,) = arrays
        axis = None if a["axis"] is None else a["axis"][0]
        several = a["axis"] is not None and len(a["axis"]) > 1
        n = x.size if axis is None else x.shape[axis]
        if several or a["exclude"] or n < 2:
            return None
        variance = scipy.stats.describe(x, axis=axis, ddof=int(a["unbiased"])).variance
        return np.asarray(finish(variance)).reshape(outs[0].shape)

    return evaluate


def _convolved(arrays: list[np.ndarray], a: dict[str, Any], outs: Any) -> Any:
    """Correlates whole images channel by channel, then keeps every stride-th result."""
    if len(set(a["dilation"])) > 1 or a["dilation"][0] > 1:
        return None
    spatial = a["data_layout"].strip("NC")
    x = np.transpose(arrays[0], [a["data_layout"].index(c) for c in "NC" + spatial])
    w = np.transpose(arrays[1], [a["kernel_layout"].index(c) for c in "OI" + spatial])
    if a["kernel_layout"] == "HWOI" and a["groups"] > 1:
        w = w.reshape(-1, 1, *w.shape[2:])
    n = len(spatial)
    pads = [(0, 0), (0, 0), *zip(a["padding"][:n], a["padding"][n:])]
    x, per_group = np.pad(x, pads), len(w) // a["groups"]
    maps = []
    for o, kernel in enumerate(w):
        first = o // per_group * w.shape[1]
        channels = x[:, first : first + w.shape[1]]
        full = [
            sum(scipy.signal.correlate(image, k, "valid", "direct") for image, k in zip(images, kernel))
            for images in channels
        ]
        maps.append(np.stack(full)[(slice(None), *(slice(None, None, s) for s in a["strides"]))])
    y = np.stack(maps, axis=1)
    return np.transpose(y, ["NC".find(c) if c in "NC" else 2 + spatial.index(c) for c in a["data_layout"]])


EVALUATE: dict[str, Any] = {
    "erf": _unary(scipy.special.erf),
    "sigmoid": _unary(scipy.special.expit),
    "exp": _unary(lambda x: scipy.special.expm1(x) + 1),
    "nn.silu": _unary(lambda x: x * scipy.special.expit(x)),
    "nn.gelu": _unary(lambda x: x * scipy.special.ndtr(x)),
    "nn.gelu_tanh": _unary(
        lambda x: x * scipy.special.expit(2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))
    ),
    "nn.softplus": _softplus,
    "nn.softmax": _along(scipy.special.softmax),
    "nn.log_softmax": _along(scipy.special.log_softmax),
    "logsumexp": _logsumexp,
    "variance": _spread(lambda v: v),
    "std": _spread(np.sqrt),
    "nn.conv1d": _convolved,
    "nn.conv2d": _convolved,
    "nn.conv3d": _convolved,
}
