"""Kernel of deformable convolution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .bounded import SMALLEST_NORMAL, UNIT_ROUNDOFF, Bounded
from .convolution import channels_first, laid_out, oriented, unless_skipped
from .elementwise import Attrs, Kernel
from .matrix import contracted

#: Roundings of a bilinear sample, in units roundoff: one distance, two products, three sums.
_ULPS = 6.0


def _places(offset: Bounded, axis: int, attrs: Attrs) -> tuple[np.ndarray, np.ndarray]:
    """Returns the coordinates along an axis at which the image is sampled, and their errors.

    Both have the shape [N, D, kh, kw, OH, OW], with D the deformable groups. The error is that of
    the offset, and one rounding of the sum unless the dtype holds it exactly.
    """
    n, _, *out = offset.shape
    kernel = attrs["kernel_size"]
    shape = (n, attrs["deformable_groups"], *kernel, 2, *out)
    tap, position = np.arange(kernel[axis]), np.arange(out[axis])
    base = (
        tap.reshape((-1, 1, 1, 1) if axis == 0 else (-1, 1, 1)) * attrs["dilation"][axis]
        + position.reshape((-1, 1) if axis == 0 else (-1,)) * attrs["strides"][axis]
        - attrs["padding"][axis]
    )
    place = offset.value.reshape(shape)[:, :, :, :, axis] + base
    u = UNIT_ROUNDOFF[offset.dtype]
    mantissa = np.frexp(place)[0] / u
    rounding = np.where(mantissa == np.floor(mantissa), 0.0, u * np.abs(place))
    return place, rounding + offset.error.reshape(shape)[:, :, :, :, axis]


def _sampled(x: Bounded, offset: Bounded, attrs: Attrs) -> tuple[Bounded, np.ndarray]:
    """Samples the image for each result's taps; returns the samples and which are surely outside.

    Both have the shape [N, C, kh, kw, OH, OW]. A sample is 0 outside of [0, H) x [0, W). Inside it
    is bilinear between neighbouring pixels, with 0 after the last pixel, as in TVM's
    topi.nn.deformable_conv2d_nchw (other implementations interpolate before the first pixel too).
    It is ambiguous where rounding decides between which pixels it lies.
    """
    n, c, *sizes = x.shape
    repeat = c // attrs["deformable_groups"]
    inside, undecided = np.array(True), np.array(False)
    pairs, distances, offs = [], [], []
    for axis, size in enumerate(sizes):
        place, off = (np.repeat(v, repeat, axis=1) for v in _places(offset, axis, attrs))
        known = np.isfinite(place) & np.isfinite(off)
        inside = inside & (place >= 0) & (place < size)
        undecided = undecided | ~known | (np.floor(place - off) != np.floor(place + off))
        low = np.where(known, np.clip(np.floor(place), 0, size - 1), 0).astype(int)
        distances.append(np.where(known, place - low, 0.0))
        pairs.append((low, low + 1))
        offs.append(np.where(np.isfinite(off), off, 0.0))
    lead = (slice(None),) + (None,) * 5, (None, slice(None)) + (None,) * 4
    batch, channel = np.arange(n)[lead[0]], np.arange(c)[lead[1]]
    weights = [(1 - d, d) for d in distances]

    def corner(v: np.ndarray, i: int, j: int) -> np.ndarray:
        return np.asarray(v[batch, channel, pairs[0][i], pairs[1][j]])

    def mixed(v: np.ndarray) -> np.ndarray:
        corners = [weights[0][i] * weights[1][j] * corner(v, i, j) for i in (0, 1) for j in (0, 1)]
        return np.sum(corners, axis=0)

    x = x.map(lambda v: np.pad(v, ((0, 0), (0, 0), (0, 1), (0, 1))))
    clean = np.where(np.isfinite(x.value), x.value, 0.0)
    error = np.where(np.isfinite(x.error), x.error, 0.0)
    unsure = x.ambiguous | ~np.isfinite(x.value)
    touched = [
        corner(unsure, i, j) & (weights[0][i] * weights[1][j] != 0) for i in (0, 1) for j in (0, 1)
    ]
    down = np.maximum(*(np.abs(corner(clean, 1, j) - corner(clean, 0, j)) for j in (0, 1)))
    right = np.maximum(*(np.abs(corner(clean, i, 1) - corner(clean, i, 0)) for i in (0, 1)))
    # The errors of the neighbouring pixels make the slope steeper.
    moved = offs[0] * down + offs[1] * right + 4 * (offs[0] + offs[1]) * np.max(error, initial=0.0)
    bound = mixed(error) + moved
    bound += _ULPS * UNIT_ROUNDOFF[x.dtype] * (mixed(np.abs(clean)) + bound) + SMALLEST_NORMAL[x.dtype]
    ambiguous = undecided | (inside & np.any(touched, axis=0))
    samples = Bounded(
        np.where(inside, mixed(clean), 0.0),
        np.where(ambiguous, np.inf, np.where(inside, bound, 0.0)),
        ambiguous,
        x.dtype,
    )
    return samples, ~inside & ~undecided


def deformable_conv2d(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, offset = (channels_first(v, attrs["data_layout"]) for v in inputs[:2])
    w = oriented(inputs[2], attrs["kernel_layout"])
    samples, outside = _sampled(x, offset, attrs)
    terms = int(np.prod(w.shape[1:]))

    def contraction(p: np.ndarray, q: np.ndarray) -> np.ndarray:
        flat = q.reshape(len(q), terms) @ p.reshape(len(p), terms, int(np.prod(p.shape[4:])))
        return flat.reshape(len(p), len(q), *p.shape[4:])

    y = contracted(lambda p, q: contraction(np.where(outside, 0.0, p), q), samples, w, terms)
    y = unless_skipped(y, lambda v: contraction(1.0 * outside, v), w)
    return laid_out(y, attrs["data_layout"])


KERNELS: dict[str, Kernel] = {"nn.deformable_conv2d": deformable_conv2d}
