"""Kernels that sample images at given coordinates, after tvm/topi/image/grid_sample.py."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .bounded import SMALLEST_NORMAL, UNIT_ROUNDOFF, Bounded, gamma, rounded
from .elementwise import Attrs, Kernel
from .resize import keys

#: The coefficient of the cubic kernel, as in PyTorch.
_ALPHA = -0.75


def _folded(c: np.ndarray, n: int, corners: bool) -> np.ndarray:
    """Reflects coordinates c into an image of n pixels, as often as necessary.

    With `corners` the mirrors are at the centres of the outermost pixels, else at the outer edges.
    """
    low, span = (0.0, n - 1.0) if corners else (-0.5, float(n))
    away = np.abs(c - low) % (2 * span)
    return np.where((c < low) | (c > low + span), low + np.minimum(away, 2 * span - away), c)


@dataclass(frozen=True)
class _Taps:
    """The pixels that contribute along one axis, [taps, batch, *places] each.

    at: the pixels' positions. inside: whether they are in the image. weight, error: their weights,
    and the errors of the weights. ambiguous: [batch, *places], whether the positions are undecided.
    """

    at: np.ndarray
    inside: np.ndarray
    weight: np.ndarray
    error: np.ndarray
    ambiguous: np.ndarray


def _taps(grid: Bounded, axis: int, n: int, attrs: Attrs) -> _Taps:
    """Returns the pixels along one axis of n pixels; `axis` is the grid's channel for it."""
    corners, padding, method = attrs["align_corners"], attrs["padding_mode"], attrs["method"]
    u = UNIT_ROUNDOFF[grid.dtype]
    g = grid.value[:, axis]
    c = (g + 1) * (n - 1) / 2 if corners else (g + 1) * n / 2 - 0.5
    # Multiples of 1/64 are computed without rounding.
    short = (c * 2**6 == np.floor(c * 2**6)) & (g * 2**6 == np.floor(g * 2**6))
    e = np.where(short, 0.0, 4 * u * (np.abs(c) + n)) + grid.error[:, axis] * n / 2
    low, high = c - e, c + e
    if method != "bicubic" and padding != "zeros":
        if padding == "reflection":
            c = _folded(c, n, corners)
        low, c, high = (np.clip(v, 0, n - 1) for v in (c - e, c, c + e))
    if method == "nearest":
        # A tie may go either way.
        at = np.ceil(c - 0.5)[None]
        unsure = np.ceil(low - 0.5) != np.floor(high + 0.5)
        weight, error = np.ones(at.shape), np.zeros(at.shape)
    else:
        base = np.floor(c)
        # Across a whole number the weights are continuous, but they belong to other pixels.
        unsure = np.floor(low) != np.floor(high)
        t = c - base
        if method == "bilinear":
            at, weight, slope, ulps = np.stack([base, base + 1]), np.stack([1 - t, t]), 1.0, 2.0
        else:
            at = base + np.arange(-1, 3).reshape(4, *(1,) * c.ndim)
            weight, slope, ulps = np.moveaxis(keys(t, _ALPHA), -1, 0), 2.0, 25.0
            if padding == "reflection":
                at = _folded(at, n, corners)
            at = at if padding == "zeros" else np.clip(at, 0, n - 1)
        error = slope * np.where(unsure, 0.0, e) + np.where(weight != 0, ulps * u, 0.0)
    inside = (at >= 0) & (at < n)
    return _Taps(np.clip(at, 0, n - 1).astype(int), inside, weight, error, unsure | grid.ambiguous[:, axis])


def grid_sample(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Returns sums of pixels, each times the product of its weights along the axes."""
    x, grid = inputs
    k = len(x.shape) - 2
    u, tiny = UNIT_ROUNDOFF[x.dtype], SMALLEST_NORMAL[x.dtype]
    axes = [_taps(grid, k - 1 - i, n, attrs) for i, n in enumerate(x.shape[2:])]
    batch = np.arange(x.shape[0]).reshape(-1, *(1,) * k)
    y = still = wide = lost = 0.0
    for which in itertools.product(*(range(len(t.at)) for t in axes)):
        index = (batch, slice(None), *(t.at[i] for t, i in zip(axes, which)))
        inside = np.logical_and.reduce([t.inside[i] for t, i in zip(axes, which)])[:, None]
        weight = np.prod([t.weight[i] for t, i in zip(axes, which)], axis=0)[:, None]
        most = np.prod([np.abs(t.weight[i]) + t.error[i] for t, i in zip(axes, which)], axis=0)[:, None]
        pixel, error, ambiguous = (
            np.where(inside, np.moveaxis(v[index], -1, 1), False) for v in (x.value, x.error, x.ambiguous)
        )
        odd = ~np.isfinite(pixel) | (~np.isfinite(error) & (ambiguous == 0))
        pixel, error = np.where(odd, 0.0, pixel), np.where(odd | (ambiguous != 0), 0.0, error)
        # An ambiguous pixel whose weight is zero but for rounding counts as one of similar size.
        jump = np.where(ambiguous != 0, np.abs(pixel) + 1, 0.0)
        if attrs["method"] != "nearest":
            lost = lost + odd + (ambiguous != 0) * (weight != 0)
            still = still + np.abs(weight) * (np.abs(pixel) + jump)
            wide = wide + most * (np.abs(pixel) + error + jump)
            y = y + weight * pixel
        else:
            moved = x.map(lambda v, index=index: np.moveaxis(v[index], -1, 1))
    unsure = np.logical_or.reduce([t.ambiguous for t in axes])[:, None]
    if attrs["method"] == "nearest":
        flags = (moved.ambiguous & inside) | unsure
        return Bounded(
            np.where(inside, moved.value, 0.0), np.where(inside, moved.error, 0.0), flags, x.dtype
        )
    taps = sum(len(t.at) for t in axes)
    moved_by = np.where(wide > still, wide - still + 2.0**-48 * wide, 0.0)
    spread = moved_by + gamma(taps + 2 * k, u) * wide + tiny * taps**k
    return rounded(np.asarray(y), spread, (lost > 0) | unsure, x.dtype)


def affine_grid(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Returns data[n, d] . (x, y, 1) with x and y from -1 to 1; TVM's grid ends 1e-7 before 1."""
    (x,) = inputs
    u = UNIT_ROUNDOFF[x.dtype]
    h, w = attrs["target_shape"]
    rows, columns = -1 + 2 * np.arange(h) / (h - 1), -1 + 2 * np.arange(w) / (w - 1)
    off = 6 * u + 1e-7
    place = np.stack(np.broadcast_arrays(columns[None, :], rows[:, None], 1.0))
    uncertain = np.array([off, off, 0.0]).reshape(3, 1, 1)

    def product(v: np.ndarray, p: np.ndarray) -> np.ndarray:
        return np.tensordot(v, p, (2, 0))

    error = np.where(x.ambiguous, 0.0, x.error)
    size = np.abs(x.value)
    magnitude = product(size + error, np.abs(place) + uncertain)
    spread = product(error, np.abs(place) + uncertain) + product(size, place * 0 + uncertain)
    spread = spread + gamma(4, u) * magnitude + 4 * SMALLEST_NORMAL[x.dtype]
    lost = product(x.ambiguous * 1.0, (place != 0) * 1.0) > 0
    y = product(x.value, place)
    # The rounding of a coordinate decides on 0 times infinity, and on infinities that cancel.
    lost |= product(~np.isfinite(x.value) * 1.0, np.ones(place.shape)) > 0
    return rounded(y, spread, lost, x.dtype)


KERNELS: dict[str, Kernel] = {"image.grid_sample": grid_sample, "image.affine_grid": affine_grid}
