"""Plain evaluations of resampled images, one output position along one axis after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def _coordinate(x: int, n: int, m: int, mode: str, ends: Any = (0.0, 0.0)) -> float:
    if mode == "align_corners":
        return x * (n - 1) / (m - 1) if m > 1 else 0.0
    if mode == "asymmetric":
        return x * n / m
    if mode == "tf_half_pixel_for_nn":
        return (2 * x + 1) * n / (2 * m)
    if mode == "tf_crop_and_resize":
        a, b = ends
        return (n - 1) * (a + x * (b - a) / (m - 1)) if m > 1 else (n - 1) * (a + b) / 2
    if mode == "pytorch_half_pixel" and m == 1:
        return 0.0
    return ((2 * x + 1) * n / m - 1) / 2


def _rounded(c: float, how: str) -> int:
    down, part = math.floor(c), c - math.floor(c)
    if how == "floor" or part == 0:
        return down
    if how == "ceil" or part > 0.5:
        return down + 1
    return down + (part == 0.5 and how != "round_prefer_floor")


def _keys(d: float, a: float) -> float:
    """Returns Keys' kernel at a distance d, factored: it is zero at 1 and 2."""
    return (1 - d) * (1 + d - (a + 2) * d * d) if d < 1 else a * (d - 1) * (d - 2) ** 2


def _taps(c: float, n: int, method: str, rounding: str, a: dict[str, Any]) -> list[tuple[int, float]]:
    """Returns pixels and their weights."""
    if method == "nearest_neighbor":
        return [(_rounded(c, rounding), 1.0)]
    base = math.floor(c)
    if method == "linear":
        return [(base, base + 1 - c), (base + 1, c - base)]
    taps = [(i, _keys(abs(c - i), a.get("cubic_alpha", -0.5))) for i in range(base - 1, base + 3)]
    if a.get("cubic_exclude"):
        taps = [(i, w) for i, w in taps if 0 <= i < n]
        total = sum(w for _, w in taps)
        taps = [(i, w / total) for i, w in taps]
    return taps


def _axis(x: np.ndarray, axis: int, cs: list[float], method: str, rounding: str, a: Any, add: Any) -> Any:
    n, rows = x.shape[axis], []
    for c in cs:
        terms = []
        for i, w in _taps(c, n, method, rounding, a):
            pixel = np.take(x, min(max(i, 0), n - 1), axis)
            terms.append(pixel if method == "nearest_neighbor" else pixel * x.dtype.type(w))
        rows.append(add(np.stack(terms, -1)).astype(x.dtype))
    return np.stack(rows, axis)


def _resampled(x: Any, layout: str, cs: Any, method: str, rounding: str, a: Any, add: Any) -> Any:
    """Returns the image at the coordinates, and a mask of the coordinates outside it."""
    outside = np.zeros((1,) * x.ndim, bool)
    for letter, row in zip([c for c in layout if c not in "NC"], cs):
        axis = layout.index(letter)
        out = np.array([not 0 <= c <= x.shape[axis] - 1 for c in row])
        outside = outside | out.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        x = _axis(x, axis, row, method, rounding, a, add)
    return x, outside


def _all(x: Any, layout: str, size: Any, method: str, mode: str, rounding: str, a: Any, add: Any) -> Any:
    old = [x.shape[i] for i, c in enumerate(layout) if c not in "NC"]
    roi, k = a.get("roi", (0.0,) * 6), len(old)
    cs = [
        [_coordinate(i, n, m, mode, (roi[axis], roi[axis + k])) for i in range(m)]
        for axis, (n, m) in enumerate(zip(old, size))
    ]
    rounding = rounding or ("round" if mode == "align_corners" else "floor")
    y, outside = _resampled(x, layout, cs, method, rounding, a, add)
    if mode == "tf_crop_and_resize":
        y = np.where(outside, x.dtype.type(a["extrapolation_value"]), y)
    return y


def _resize(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> Any:
    mode = a["coordinate_transformation_mode"]
    return _all(arrays[0], a["layout"], a["size"], a["method"], mode, a["rounding_method"], a, add)


def _upsampling(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> Any:
    size = [d for d, c in zip(outs[0].shape, a["layout"]) if c not in "NC"]
    method = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(a["method"], a["method"])
    mode = a.get("coordinate_transformation_mode")
    mode = mode or ("align_corners" if a["align_corners"] else "asymmetric")
    return _all(arrays[0], a["layout"], size, method, mode, "", {}, add)


def _crop(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> np.ndarray:
    x, boxes, indices = arrays
    method = "linear" if a["method"] == "bilinear" else a["method"]
    images = []
    for (y1, x1, y2, x2), i in zip(boxes.astype(float).tolist(), indices):
        options = {"roi": (y1, x1, y2, x2), "extrapolation_value": a["extrapolation_value"]}
        mode = "tf_crop_and_resize"
        images.append(_all(x[[i]], a["layout"], a["crop_size"], method, mode, "round", options, add))
    return np.concatenate(images)


PLAIN: dict[str, Any] = {
    "image.resize1d": _resize,
    "image.resize2d": _resize,
    "image.resize3d": _resize,
    "nn.upsampling": _upsampling,
    "nn.upsampling3d": _upsampling,
    "image.crop_and_resize": _crop,
}
