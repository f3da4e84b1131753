"""Plain evaluations of arithmetic on quantised tensors and of their products."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np

from .first import plain_conv
from .quantized import each, over, upward


def binary(name: str) -> Any:
    def evaluate(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> np.ndarray:
        p, q, sp, zp, sq, zq, so, zo = arrays

        def element(p: Fraction, q: Fraction, sp: Fraction, zp: Fraction, *rest: Fraction) -> Fraction:
            sq, zq, so, zo = rest
            x, y = sp * (p - zp), sq * (q - zq)
            if name == "mul":
                return upward(x * y / so) + zo
            second = upward(y / so)
            return upward(x / so) + (second if name == "add" else -second) + zo

        return each(element, outs[0].dtype, p, q, over(sp, p, -1), over(zp, p, -1), sq, zq, so, zo)

    return evaluate


def _centred(arrays: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    x, w, zx, zw = (v.astype(np.int64) for v in arrays[:4])
    return x - zx, w - zw


def conv2d(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> np.ndarray:
    return plain_conv(*_centred(arrays), a, outs[0].shape, add).astype(np.int32)


def product(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> np.ndarray:
    x, w = _centred(arrays)
    return add(x[..., :, None, :] * w[..., None, :, :]).astype(np.int32)


def conv2d_transpose(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> np.ndarray:
    """Adds to the result, tap by tap, the kernel scaled by each element of x."""
    x, w = _centred(arrays)
    last = a["data_layout"] == "NHWC"
    x = x.transpose(0, 3, 1, 2) if last else x
    n, channels, height, width = (outs[0].shape[i] for i in ((0, 3, 1, 2) if last else range(4)))
    y = np.zeros((n, channels, height, width), np.int32)
    (top, left, _, _), (sh, sw) = a["padding"], a["strides"]
    for i, j, p, q in itertools.product(*map(range, x.shape[2:] + w.shape[2:])):
        row, column = i * sh + p - top, j * sw + q - left
        if 0 <= row < y.shape[2] and 0 <= column < y.shape[3]:
            y[:, :, row, column] += x[:, :, i, j].dot(w[:, :, p, q]).astype(np.int32)
    return y.transpose(0, 2, 3, 1) if last else y


PLAIN: dict[str, Any] = {
    "qnn.add": binary("add"),
    "qnn.subtract": binary("subtract"),
    "qnn.mul": binary("mul"),
    "qnn.conv2d": conv2d,
    "qnn.dense": product,
    "qnn.batch_matmul": product,
    "qnn.conv2d_transpose": conv2d_transpose,
}
BY = dict.fromkeys(("qnn.add", "qnn.subtract", "qnn.mul"), "rational numbers")
