"""Plain evaluations of the commonest operators."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pytest_byoc.core.graph import TensorType

from .sums import Sum


def gathered(x: np.ndarray, a: dict[str, Any], size: Any, out: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns patches of x [N, C, H, W] as [N, C, OH, OW, taps], and whether each tap is in the
    image."""
    rows, columns = (
        np.arange(o)[:, None] * s - p + np.arange(k) * d
        for o, s, p, k, d in zip(out, a["strides"], a["padding"][:2], size, a["dilation"])
    )
    h, w = x.shape[2:]
    inside = ((rows >= 0) & (rows < h))[:, None, :, None] & ((columns >= 0) & (columns < w))[:, None]
    patches = x[:, :, rows.clip(0, h - 1)[:, None, :, None], columns.clip(0, w - 1)[:, None]]
    taps = (*out, len(rows[0]) * len(columns[0]))
    return patches.reshape(x.shape[:2] + taps), inside.reshape(taps)


def padded_count(x: np.ndarray, a: dict[str, Any], out: Any) -> np.ndarray:
    """Returns the number of taps of each window in the image or its padding, one window at a
    time."""
    top, left, bottom, right = a["padding"]
    count = np.zeros(out)
    for i, j in itertools.product(*map(range, out)):
        for p, q in itertools.product(*map(range, a["pool_size"])):
            row = i * a["strides"][0] - top + p * a["dilation"][0]
            column = j * a["strides"][1] - left + q * a["dilation"][1]
            count[i, j] += row < x.shape[2] + bottom and column < x.shape[3] + right
    return count


def images(x: np.ndarray, layout: str, back: bool = False) -> np.ndarray:
    if layout == "NCHW":
        return x
    return x.transpose(0, 2, 3, 1) if back else x.transpose(0, 3, 1, 2)


def plain_conv(x: np.ndarray, w: np.ndarray, a: dict[str, Any], out: Any, add: Sum) -> np.ndarray:
    x = images(x, a["data_layout"])
    w = np.einsum(w, ["OIHW".index(c) for c in a["kernel_layout"]], [0, 1, 2, 3])
    if a["kernel_layout"] == "HWOI" and a["groups"] > 1:
        w = np.stack([kernel for channel in w for kernel in channel])[:, None]
    patches, inside = gathered(x, a, w.shape[2:], images(np.empty(out), a["data_layout"]).shape[2:])
    per_group = w.shape[0] // a["groups"]
    maps = []
    for o in range(w.shape[0]):
        first = o // per_group * w.shape[1]
        channels = patches[:, first : first + w.shape[1]] * inside
        terms = channels * w[o].reshape(w.shape[1], 1, 1, -1)
        maps.append(add(np.concatenate([terms[:, c] for c in range(w.shape[1])], axis=-1)))
    return images(np.stack(maps, axis=1).astype(x.dtype), a["data_layout"], back=True)


def plain_pool(name: str, x: np.ndarray, a: dict[str, Any], out: Any, add: Sum) -> np.ndarray:
    x = images(x, a["layout"])
    sizes = images(np.empty(out), a["layout"]).shape[2:]
    patches, inside = gathered(x, a, a["pool_size"], sizes)
    if name == "nn.max_pool2d":
        y = np.where(inside, patches, patches.min()).max(axis=-1)
    else:
        count = padded_count(x, a, sizes) if a["count_include_pad"] else inside.sum(axis=-1)
        y = add(np.where(inside, patches, x.dtype.type(0))) / count.astype(x.dtype)
    return images(y.astype(x.dtype), a["layout"], back=True)


def plain_reduction(name: str, x: np.ndarray, a: dict[str, Any], out: Any, add: Sum) -> np.ndarray:
    axes = set(range(x.ndim)) if a["axis"] is None else {i % x.ndim for i in a["axis"]}
    axes = set(range(x.ndim)) - axes if a["exclude"] else axes
    kept = [i for i in range(x.ndim) if i not in axes]
    terms = x.transpose(kept + sorted(axes)).reshape([x.shape[i] for i in kept] + [-1])
    if name == "prod":
        y = terms[..., 0]
        for i in range(1, terms.shape[-1]):
            y = y * terms[..., i]
    elif name in ("max", "min"):
        y = getattr(np, name)(terms, axis=-1)
    else:
        y = add(terms)
        if name == "mean":
            n = terms.shape[-1]
            # The quotient of integers is rounded towards zero: fmod has the sign of the dividend.
            exact = (y - np.fmod(y, n)) // n if x.dtype.kind in "iu" else y / x.dtype.type(n)
            y = exact.astype(x.dtype)
    return y.reshape(out)


def plain_softmax(name: str, x: np.ndarray, a: dict[str, Any], out: Any, add: Sum) -> np.ndarray:
    x = np.moveaxis(x, a["axis"], -1)
    shifted = x - x.max(axis=-1, keepdims=True)
    total = add(np.exp(shifted))[..., None]
    y = np.exp(shifted) / total if name == "nn.softmax" else shifted - np.log(total)
    return np.moveaxis(y, -1, a["axis"])


def plain_product(x: np.ndarray, w: np.ndarray, a: dict[str, Any], out: Any, add: Sum) -> np.ndarray:
    x = np.swapaxes(x, -1, -2) if a.get("transpose_a") else x
    w = w if a.get("transpose_b", True) else np.swapaxes(w, -1, -2)
    return add(x[..., :, None, :] * w[..., None, :, :])


def plain_slice(x: np.ndarray, a: dict[str, Any]) -> np.ndarray:
    axes = range(x.ndim) if a["axes"] is None else a["axes"]
    for axis, b, e, s in zip(axes, a["begin"], a["end"], a["strides"]):
        n = x.shape[axis]
        low, high = (0, n) if s > 0 else (-1, n - 1)
        b, e = (min(max(v + n if v < 0 else v, low), high) for v in (b, e))
        x = np.take(x, list(range(b, e, s)), axis=axis)
    return x


def plain_split(x: np.ndarray, a: dict[str, Any], outs: Any) -> tuple[np.ndarray, ...]:
    pieces, start = [], 0
    for t in outs:
        length = t.shape[a["axis"]]
        pieces.append(np.take(x, range(start, start + length), axis=a["axis"]))
        start += length
    return tuple(pieces)


def _each_finite(f: Callable[[float], int], x: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda v: f(v) if math.isfinite(v) else v, otypes=[x.dtype])(x)


UNARY: dict[str, Callable[[np.ndarray, dict[str, Any]], np.ndarray]] = {
    "nn.relu": lambda x, a: np.where(x > 0, x, 0),
    "nn.leaky_relu": lambda x, a: np.where(x > 0, x, x * x.dtype.type(a["alpha"])),
    "clip": lambda x, a: np.where(x < a["a_min"], a["a_min"], np.where(x > a["a_max"], a["a_max"], x)),
    "sigmoid": lambda x, a: 1 / (1 + np.exp(-x)),
    "tanh": lambda x, a: np.sign(x) * -np.expm1(-2 * np.abs(x)) / (1 + np.exp(-2 * np.abs(x))),
    "exp": lambda x, a: np.exp(x),
    "log": lambda x, a: np.log(x),
    "sqrt": lambda x, a: np.sqrt(x),
    "abs": lambda x, a: np.where(x < 0, -x, x),
    "negative": lambda x, a: 0 - x,
    "floor": lambda x, a: _each_finite(math.floor, x),
    "ceil": lambda x, a: _each_finite(math.ceil, x),
    "nn.batch_flatten": lambda x, a: np.stack([x[i].flatten() for i in range(len(x))]),
    "transpose": lambda x, a: np.transpose(x, a["axes"]),
    "strided_slice": plain_slice,
    "broadcast_to": lambda x, a: x + np.zeros(a["shape"], x.dtype),
}


def _towards_zero(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns the quotient of integers, rounded towards zero."""

    def quotient(p: int, q: int) -> int:
        return (abs(p) // abs(q)) * (1 if (p < 0) == (q < 0) else -1) if q else 0

    return np.asarray(np.frompyfunc(quotient, 2, 1)(x.astype(object), y.astype(object)), x.dtype)


BINARY = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: _towards_zero(x, y) if np.issubdtype(x.dtype, np.integer) else x / y,
    "maximum": lambda x, y: np.where(x > y, x, y),
    "minimum": lambda x, y: np.where(x < y, x, y),
}


def evaluate(
    name: str, arrays: list[np.ndarray], a: dict[str, Any], outs: Sequence[TensorType], add: Sum
) -> tuple[np.ndarray, ...]:
    x, dtype, out = arrays[0], arrays[0].dtype, outs[0].shape
    with np.errstate(all="ignore"):
        if a.get("out_dtype", dtype) != dtype:
            arrays = [v.astype(a["out_dtype"]) for v in arrays]
            return evaluate(name, arrays, a, outs, add)
        if name in UNARY:
            y = UNARY[name](x, a).astype(outs[0].dtype)
        elif name in BINARY:
            y = BINARY[name](x, arrays[1])
        elif name == "nn.conv2d":
            y = plain_conv(x, arrays[1], a, out, add)
        elif name in ("nn.max_pool2d", "nn.avg_pool2d"):
            y = plain_pool(name, x, a, out, add)
        elif name.startswith("nn.global"):
            terms = images(x, a["layout"]).reshape(*images(np.empty(out), a["layout"]).shape, -1)
            y = terms.max(axis=-1) if "max" in name else add(terms) / dtype.type(terms.shape[-1])
            y = images(y.astype(dtype), a["layout"], back=True)
        elif name in ("sum", "mean", "max", "min", "prod"):
            y = plain_reduction(name, x, a, out, add)
        elif name in ("nn.softmax", "nn.log_softmax"):
            y = plain_softmax(name, x, a, out, add)
        elif name in ("nn.dense", "nn.matmul", "nn.batch_matmul"):
            y = plain_product(x, arrays[1], a, out, add)
        elif name == "nn.bias_add":
            y = np.moveaxis(np.moveaxis(x, a["axis"], -1) + arrays[1], -1, a["axis"])
        elif name == "nn.pad" and a["pad_mode"] == "constant":
            y = np.full(out, a["pad_value"], dtype)
            y[tuple(slice(b, b + d) for (b, _), d in zip(a["pad_width"], x.shape))] = x
        elif name == "nn.pad":
            y = x
            for i, (d, (b, e)) in enumerate(zip(x.shape, a["pad_width"])):
                at = range(-b, d + e)
                edge = [min(max(k, 0), d - 1) for k in at]
                y = np.take(y, edge if a["pad_mode"] == "edge" else [2 * j - k for j, k in zip(edge, at)], i)
        elif name == "concatenate":
            y = np.moveaxis(np.array([p for v in arrays for p in np.moveaxis(v, a["axis"], 0)]), 0, a["axis"])
        elif name == "split":
            return plain_split(x, a, outs)
        else:
            # reshape, squeeze, expand_dims: the elements keep their order and get the inferred
            # shape.
            y = np.array(x.flatten().tolist(), dtype).reshape(out)
    return (y,)
