"""Plain evaluations of normalisations, step by step as in their papers (two passes)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .sums import Sum


def _total(x: np.ndarray, axes: Any, add: Sum) -> np.ndarray:
    """Sums over axes, which are kept with length 1."""
    axes = sorted(i % x.ndim for i in axes)
    kept = [i for i in range(x.ndim) if i not in axes]
    shape = [1 if i in axes else d for i, d in enumerate(x.shape)]
    return add(x.transpose(kept + axes).reshape([x.shape[i] for i in kept] + [-1])).reshape(shape)


def _placed(v: np.ndarray, axes: Any, rank: int) -> np.ndarray:
    """Returns v with its dimensions at those axes and dimensions of 1 elsewhere."""
    axes = [i % rank for i in axes]
    return np.expand_dims(v, tuple(i for i in range(rank) if i not in axes))


def _affine(y: np.ndarray, a: dict[str, Any], scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    y = y * scale if a["scale"] else y
    return y + shift if a["center"] else y


def _over(x: np.ndarray, axes: Any, a: dict[str, Any], add: Sum) -> np.ndarray:
    """Returns x less its mean, divided by its standard deviation."""
    count = x.dtype.type(np.prod([x.shape[i] for i in axes]))
    centred = x - _total(x, axes, add) / count
    variance = _total(centred * centred, axes, add) / count
    return centred / np.sqrt(variance + x.dtype.type(a["epsilon"]))


def _batch(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> tuple[np.ndarray, ...]:
    x = arrays[0]
    gamma, beta, mean, variance = (_placed(v, [a["axis"]], x.ndim) for v in arrays[1:])
    if a.get("training"):
        axes = [i for i in range(x.ndim) if i != a["axis"] % x.ndim]
        count, part = x.dtype.type(np.prod([x.shape[i] for i in axes])), x.dtype.type(0.1)
        means = _total(x, axes, add) / count
        spread = _total((x - means) * (x - means), axes, add) / count
        moved = (
            (x.dtype.type(1) - part) * old + part * new.ravel()
            for old, new in ((arrays[3], means), (arrays[4], spread))
        )
        return _affine(_over(x, axes, a, add), a, gamma, beta), *moved
    y = (x - mean) / np.sqrt(variance + x.dtype.type(a["epsilon"]))
    return _affine(y, a, gamma, beta), arrays[3], arrays[4]


def _layer(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
    x, gamma, beta = arrays
    y = _over(x, a["axes"], a, add)
    return _affine(y, a, _placed(gamma, a["axes"], x.ndim), _placed(beta, a["axes"], x.ndim))


def _instance(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
    """Normalises one instance and channel at a time."""
    x, gamma, beta = arrays
    x = np.moveaxis(x, a["axis"], 1)
    y = np.empty_like(x)
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            y[i, c] = _affine(_over(x[i, c], range(x.ndim - 2), a, add), a, gamma[c], beta[c])
    return np.moveaxis(y, 1, a["axis"])


def _group(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
    """Normalises one group at a time; the dimensions before the channels form a batch."""
    x, gamma, beta = arrays
    axis = a["axis"] % x.ndim
    y = np.empty_like(x)
    for part in np.split(np.arange(x.shape[axis]), a["num_groups"]):
        channels = (slice(None),) * axis + (part,)
        y[channels] = _over(x[channels], range(axis, x.ndim), a, add)
    return _affine(y, a, _placed(gamma, [axis], x.ndim), _placed(beta, [axis], x.ndim))


def _rms(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
    x, weight = arrays
    mean = _total(x * x, a["axes"], add) / x.dtype.type(weight.size)
    return x / np.sqrt(mean + x.dtype.type(a["epsilon"])) * _placed(weight, a["axes"], x.ndim)


def _l2(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
    (x,) = arrays
    axes = range(x.ndim) if a["axis"] is None else a["axis"]
    return x / np.sqrt(np.maximum(_total(x * x, axes, add), x.dtype.type(a["eps"])))


def _lrn(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
    """Evaluates ONNX's formula of LRN, one channel at a time."""
    x = np.moveaxis(arrays[0], a["axis"], -1)
    kind, reach = x.dtype.type, a["size"] // 2
    y = np.empty_like(x)
    for c in range(x.shape[-1]):
        near = x[..., max(0, c - reach) : c + reach + 1]
        mean = kind(a["alpha"]) * add(near * near) / kind(a["size"])
        y[..., c] = x[..., c] / (kind(a["bias"]) + mean) ** kind(a["beta"])
    return np.moveaxis(y, -1, a["axis"])


PLAIN: dict[str, Any] = {
    "nn.batch_norm": _batch,
    "nn.layer_norm": _layer,
    "nn.group_norm": _group,
    "nn.instance_norm": _instance,
    "nn.rms_norm": _rms,
    "nn.l2_normalize": _l2,
    "nn.lrn": _lrn,
    "nn.dropout": lambda arrays, a, outs, add: (arrays[0], np.full_like(arrays[0], 1)),
}
