"""Plain evaluations of images sampled one position at a time."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np


def _reflected(c: float, low: float, high: float) -> float:
    while not low <= c <= high:
        c = 2 * low - c if c < low else 2 * high - c
    return c


def _keys(d: float, a: float = -0.75) -> float:
    """Returns Keys' kernel at a distance d, factored: it is zero at 1 and 2."""
    return (1 - d) * (1 + d - (a + 2) * d * d) if d < 1 else a * (d - 1) * (d - 2) ** 2


def _along(g: float, n: int, a: dict[str, Any]) -> list[tuple[int, float]]:
    """Returns pixels and their weights along an axis."""
    corners, padding = a["align_corners"], a["padding_mode"]
    c = (g + 1) / 2 * (n - 1) if corners else ((g + 1) * n - 1) / 2
    border = (0, n - 1) if corners else (-0.5, n - 0.5)
    if a["method"] != "bicubic" and padding != "zeros":
        c = _reflected(c, *border) if padding == "reflection" else c
        c = min(max(c, 0), n - 1)
    base = math.floor(c)
    if a["method"] == "nearest":
        return [(round(c), 1.0)]
    if a["method"] == "bilinear":
        return [(base, base + 1 - c), (base + 1, c - base)]
    taps = [(i, _keys(abs(c - i))) for i in range(base - 1, base + 3)]
    if padding == "reflection":
        taps = [(int(_reflected(i, *border)), w) for i, w in taps]
    return taps if padding == "zeros" else [(min(max(i, 0), n - 1), w) for i, w in taps]


def _grid_sample(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> np.ndarray:
    x, grid = arrays
    y = np.zeros(outs[0].shape, x.dtype)
    for n, *place in np.ndindex(grid.shape[0], *grid.shape[2:]):
        where = [float(v) for v in grid[(n, slice(None), *place)][::-1]]
        axes = [_along(g, d, a) for g, d in zip(where, x.shape[2:])]
        terms = [np.zeros(x.shape[1], x.dtype)]
        for taps in itertools.product(*axes):
            if all(0 <= i < d for (i, _), d in zip(taps, x.shape[2:])):
                pixel = x[(n, slice(None), *(i for i, _ in taps))]
                for _, w in taps:
                    pixel = pixel if a["method"] == "nearest" else pixel * x.dtype.type(w)
                terms.append(pixel)
        y[(n, slice(None), *place)] = add(np.stack(terms, -1))
    return y


def _affine_grid(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> np.ndarray:
    (x,) = arrays
    h, w = a["target_shape"]
    y = np.empty(outs[0].shape, x.dtype)
    for i, j in np.ndindex(h, w):
        place = np.array([np.linspace(-1, 1, w)[j], np.linspace(-1, 1, h)[i], 1.0]).astype(x.dtype)
        y[:, :, i, j] = add(x * place)
    return y


PLAIN: dict[str, Any] = {"image.grid_sample": _grid_sample, "image.affine_grid": _affine_grid}
