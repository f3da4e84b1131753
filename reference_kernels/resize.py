"""Kernels of operators that resample images, after tvm/topi/image/resize.py.

Along each axis an output position x has a coordinate c in the input. The result is a sum of pixels
with weights that depend on c: a matrix [new size, old size] per axis. TVM computes coordinates in
float32 whatever the tensor's dtype; a coordinate that needs no rounding is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from pytest_byoc.operators.resize import scaled, spatial

from .bounded import SMALLEST_NORMAL, UNIT_ROUNDOFF, Bounded, gamma, rounded
from .elementwise import Attrs, Kernel

_U = UNIT_ROUNDOFF["float32"]


@dataclass(frozen=True)
class Coordinates:
    """Coordinates along one axis: c in the input, e their errors in float32; [new size] each."""

    c: np.ndarray
    e: np.ndarray


def _quotients(x: np.ndarray, over: int, under: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns x * over / under, and where float32 gives exactly that in any order of operations."""
    y = x * over / under
    single, a, b = x.astype(np.float32), np.float32(over), np.float32(under)
    ways = [single * (a / b), single * a / b]
    if over:
        ways.append(single / (b / a))
    return y, np.logical_and.reduce([way.astype(np.float64) == y for way in ways])


def coordinates(n: int, m: int, mode: str, start: float = 0.0, end: float = 0.0) -> Coordinates:
    """Returns the coordinates of `m` output positions over `n` pixels, as get_inx of topi does.

    mode: TVM's coordinate_transformation_mode. start, end: the region of interest along this axis,
    as fractions of n - 1, for "tf_crop_and_resize".
    """
    x = np.arange(m, dtype=np.float64)
    if mode == "tf_crop_and_resize":
        c = start * (n - 1) + x * ((end - start) * (n - 1)) / (m - 1) if m > 1 else None
        c = np.full(m, 0.5 * (start + end) * (n - 1)) if c is None else c
        # start and end are rounded too.
        return Coordinates(c, 8 * _U * n * (abs(start) + abs(end)) * np.ones(m))
    if mode == "align_corners":
        c, exact = _quotients(x, n - 1, max(m - 1, 1))
    elif mode == "asymmetric":
        c, exact = _quotients(x, n, m)
    elif mode == "tf_half_pixel_for_nn":
        c, exact = _quotients(x + 0.5, n, m)
    elif mode == "pytorch_half_pixel" and m == 1:
        return Coordinates(np.zeros(1), np.zeros(1))
    else:
        c = (x + 0.5) * n / m - 0.5
        # Exact only if n / m and m / n both are (ONNX divides by m / n): with a fused multiply-add
        # the product is not rounded, and the subtraction then shows the ratio's rounding.
        common = gcd(n, m)
        exact = np.full(m, all(d & (d - 1) == 0 for d in (m // common, n // common)))
    return Coordinates(c, np.where(exact, 0.0, 4 * _U * (np.abs(c) + 1)))


@dataclass(frozen=True)
class Weights:
    """The weights along one axis, each [new size, old size] but the last.

    value, error: the weights and their errors. reach: the pixels that an implementation may
    multiply by a weight, even if it is zero. ambiguous: [new size], where the pixel is undecided.
    """

    value: np.ndarray
    error: np.ndarray
    reach: np.ndarray
    ambiguous: np.ndarray


def nearest(c: np.ndarray, rounding: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the nearest pixel twice; with rounding "round", both pixels of a tie."""
    if rounding == "round":
        return np.ceil(c - 0.5), np.floor(c + 0.5)
    steps: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda v: np.ceil(v - 0.5),
        "round_prefer_ceil": lambda v: np.floor(v + 0.5),
    }
    pixel = steps[rounding](c)
    return pixel, pixel


def keys(t: np.ndarray, alpha: float) -> np.ndarray:
    """Returns the weights [m, 4] of the four pixels around a point at distance t in [0, 1).

    Source: Keys, "Cubic convolution interpolation for digital image processing" (1981).
    """
    return np.stack(
        [
            alpha * t * (1 - t) ** 2,
            (alpha + 2) * t**3 - (alpha + 3) * t**2 + 1,
            t * ((-(alpha + 2) * t + (3 + 2 * alpha)) * t - alpha),
            alpha * t**2 * (1 - t),
        ],
        axis=-1,
    )


def _excluded(w: np.ndarray, at: np.ndarray, n: int) -> np.ndarray:
    inside = np.where((at >= 0) & (at < n), w, 0.0)
    total = np.sum(inside, axis=-1, keepdims=True)
    # Far outside of the image no weight is left to divide by.
    return inside / np.where(total == 0, 1.0, total)


def _spread(taps: np.ndarray, at: np.ndarray, n: int) -> np.ndarray:
    """Spreads weights [m, taps] at pixels `at` [m, taps] over all n pixels: [m, n].

    Pixels outside of the image are replaced by the nearest at its edge.
    """
    y = np.zeros((len(taps), n))
    np.add.at(y, (np.arange(len(taps))[:, None], np.clip(at, 0, n - 1)), taps)
    return y


def weights(
    where: Coordinates,
    n: int,
    method: str,
    rounding: str,
    dtype: str,
    alpha: float = -0.5,
    exclude: bool = False,
) -> Weights:
    """Returns the weights of n pixels for the coordinates `where` along one axis.

    method: "nearest_neighbor", "linear" or "cubic". rounding: TVM's rounding_method, for the first.
    dtype: that of the tensor; weights are rounded to it or to float32, whichever is less precise.
    alpha: the coefficient of the cubic kernel. exclude: whether cubic weights outside of the image
    become 0 and the others are divided by their sum (TVM's cubic_exclude).
    """
    c, e = where.c, where.e
    u = max(_U, UNIT_ROUNDOFF.get(dtype, 0.0))
    m = len(c)
    low, high = c - e, c + e
    if method == "nearest_neighbor":
        first = np.clip(nearest(low, rounding)[0], 0, n - 1)
        last = np.clip(nearest(high, rounding)[1], 0, n - 1)
        at = np.clip(nearest(c, rounding)[0], 0, n - 1).astype(int)
        one = np.arange(n) == at[:, None]
        return Weights(one * 1.0, np.zeros((m, n)), one, first != last)

    def tapped(v: np.ndarray) -> np.ndarray:
        """Returns the matrix of weights for coordinates v."""
        base = np.floor(v).astype(int)
        t = v - base
        if method == "linear":
            return _spread(np.stack([1 - t, t], -1), np.stack([base, base + 1], -1), n)
        at = base[:, None] + np.arange(-1, 3)
        taps = keys(t, alpha)
        return _spread(_excluded(taps, at, n) if exclude else taps, at, n)

    value = tapped(c)
    ends = tapped(low), tapped(high)
    base = np.floor(c).astype(int)
    t = c - base
    touched = (value != 0) | (ends[0] != 0) | (ends[1] != 0)
    if method == "linear":
        at = np.stack([base, base + 1], -1)
        # The weights are 1-Lipschitz in c; computing 1 - t rounds once.
        error = np.where(touched, e[:, None] + u * np.abs(value), 0.0)
    else:
        at = base[:, None] + np.arange(-1, 3)
        moved = np.maximum(np.abs(ends[0] - value), np.abs(ends[1] - value))
        # The second derivative is below 10 * (2 + |alpha|).
        moved += np.where(touched, 10 * (2 + abs(alpha)) * e[:, None] ** 2, 0.0)
        a = abs(alpha)
        inner = (lambda d: ((alpha + 2) * d + alpha + 3) * d * d + 1)(np.stack([t, 1 - t]))
        # Horner's scheme for the two outer weights adds numbers of magnitude up to 6 |alpha|.
        size = np.stack([np.full(m, 6 * a), inner[0], inner[1], np.full(m, 6 * a)], -1)
        cubic = keys(t, alpha)
        size = np.where(cubic != 0, size, 0.0) * 5 * u
        if exclude:
            inside = (at >= 0) & (at < n)
            total = np.sum(np.where(inside, cubic, 0.0), -1, keepdims=True)
            total = np.where(total == 0, 1.0, total)
            size = np.where(inside, size, 0.0)
            off = np.sum(size, -1, keepdims=True)
            size = size + np.abs(_excluded(cubic, at, n)) * (off + 4 * u)
            size = np.where(inside & (cubic != 0), size / np.abs(total), 0.0)
        error = moved + _spread(size, at, n)
    # An implementation may move an outside coordinate to the edge; it then also multiplies the next
    # pixel inside.
    inner = np.floor(np.clip(c, 0, n - 1)).astype(int)[:, None] + np.arange(2)
    at = np.concatenate([at, inner], axis=1)
    reach = _spread(np.ones(at.shape), at, n) > 0
    return Weights(value, error, reach, np.zeros(m, bool))


def _along(matrices: Sequence[np.ndarray], v: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """Multiplies v along each axis by that axis's matrix [new size, old size]."""
    for matrix, axis in zip(matrices, axes):
        v = np.moveaxis(np.tensordot(matrix, v, (1, axis)), 0, axis)
    return v


def _on_axes(rows: Sequence[np.ndarray], axes: Sequence[int], shape: Sequence[int]) -> np.ndarray:
    """Returns for each element of `shape` whether the flag of its position on any axis is set."""
    flags = np.zeros(shape, bool)
    for row, axis in zip(rows, axes):
        flags |= row.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return flags


def interpolated(x: Bounded, ws: Sequence[Weights], axes: tuple[int, ...], method: str) -> Bounded:
    """Returns the sums of weighted pixels.

    The propagated error is the sum of magnitudes with the errors of weights and pixels included,
    less the same sum without them. The roundings of the sums are bounded by gamma(taps + 2 per
    axis). Every result that multiplies a pixel that is not finite is ambiguous.
    """
    if method == "nearest_neighbor":
        every = [np.arange(d) for d in x.shape]
        for w, axis in zip(ws, axes):
            every[axis] = np.argmax(w.value, axis=1)
        chosen = np.ix_(*every)
        picked = x.map(lambda v: v[chosen])
        undecided = _on_axes([w.ambiguous for w in ws], axes, picked.shape)
        return Bounded(picked.value, picked.error, picked.ambiguous | undecided, x.dtype)
    u = UNIT_ROUNDOFF[x.dtype]
    odd = ~np.isfinite(x.value) | (~x.ambiguous & ~np.isfinite(x.error))
    value = np.where(odd, 0.0, x.value)
    # An ambiguous pixel whose weight is zero but for rounding counts as one of similar size.
    error = np.where(odd, 0.0, np.where(x.ambiguous, 0.0, x.error))
    jump = np.where(x.ambiguous & ~odd, np.abs(value) + 1, 0.0)
    plain = [np.abs(w.value) for w in ws]
    wide = [p + w.error for p, w in zip(plain, ws)]
    y = _along([w.value for w in ws], value, axes)
    magnitude = _along(wide, np.abs(value) + error + jump, axes)
    still = _along(plain, np.abs(value) + jump, axes)
    # The difference is rounded in float64.
    moved = magnitude - still
    moved = np.where(moved > 0, moved + 2.0**-48 * magnitude, 0.0)
    taps = 4 if method == "cubic" else 2
    spread = moved + gamma((taps + 2) * len(ws), u) * magnitude
    spread = spread + SMALLEST_NORMAL[x.dtype] * taps ** len(ws)
    lost = _along([(w.value != 0) * 1.0 for w in ws], x.ambiguous * 1.0, axes) > 0
    lost |= _along([w.reach * 1.0 for w in ws], odd * 1.0, axes) > 0
    return rounded(y, spread, lost, x.dtype)


def _extrapolated(
    y: Bounded, axes: Sequence[int], where: Sequence[Coordinates], old: Sequence[int], fill: float
) -> Bounded:
    """Replaces results by `fill` where a coordinate is outside of the image.

    A result is ambiguous where the rounding of its coordinate decides that.
    """
    sure, unsure = [], []
    for place, n in zip(where, old):
        out = [(v < 0) | (v > n - 1) for v in (place.c - place.e, place.c, place.c + place.e)]
        sure.append(out[0] & out[1] & out[2])
        unsure.append((out[0] != out[2]) | (out[0] != out[1]))
    beyond = _on_axes(sure, axes, y.shape)
    undecided = _on_axes(unsure, axes, y.shape) & ~beyond
    value = np.where(beyond, fill, y.value).astype(y.value.dtype)
    error = np.where(beyond, UNIT_ROUNDOFF.get(y.dtype, 0.0) * abs(fill), y.error)
    return Bounded(value, error, (y.ambiguous | undecided) & ~beyond, y.dtype)


def _resample(
    x: Bounded, layout: str, size: Sequence[int], method: str, mode: str, rounding: str, attrs: Attrs
) -> Bounded:
    axes = spatial(len(x.shape), layout)
    old = [x.shape[a] for a in axes]
    if not rounding:
        rounding = "round" if mode == "align_corners" else "floor"
    k = len(axes)
    roi = attrs.get("roi") or (0.0,) * 2 * k
    where = [coordinates(n, m, mode, roi[i], roi[i + k]) for i, (n, m) in enumerate(zip(old, size))]
    alpha, exclude = attrs.get("cubic_alpha", -0.5), bool(attrs.get("cubic_exclude"))
    ws = [weights(w, n, method, rounding, x.dtype, alpha, exclude) for w, n in zip(where, old)]
    y = interpolated(x, ws, axes, method)
    if mode == "tf_crop_and_resize":
        y = _extrapolated(y, axes, where, old, attrs["extrapolation_value"])
    return y


def resize(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    mode = attrs["coordinate_transformation_mode"]
    method, rounding = attrs["method"], attrs["rounding_method"]
    return _resample(x, attrs["layout"], attrs["size"], method, mode, rounding, attrs)


def upsampling(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Resizes with mode align_corners or asymmetric, unless the attributes name another mode."""
    (x,) = inputs
    method = attrs["method"].replace("bi", "").replace("tri", "")
    mode = attrs.get("coordinate_transformation_mode")
    mode = mode or ("align_corners" if attrs["align_corners"] else "asymmetric")
    return _resample(x, attrs["layout"], scaled(x.shape, attrs), method, mode, "", {})


def crop_and_resize(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes tf.image.crop_and_resize: each box's corners become the corners of its result."""
    x, boxes, indices = inputs
    axes = spatial(len(x.shape), attrs["layout"])
    old = [x.shape[a] for a in axes]
    method = attrs["method"].replace("bi", "")
    crops = []
    for box, error, index in zip(boxes.value, boxes.error, indices.value):
        image = x.map(lambda v, index=index: v[index : index + 1])
        where = []
        for i, (n, m) in enumerate(zip(old, attrs["crop_size"])):
            place = coordinates(n, m, "tf_crop_and_resize", float(box[i]), float(box[i + 2]))
            where.append(Coordinates(place.c, place.e + (n - 1) * max(error[i], error[i + 2])))
        ws = [weights(w, n, method, "round", x.dtype) for w, n in zip(where, old)]
        y = interpolated(image, ws, axes, method)
        crops.append(_extrapolated(y, axes, where, old, attrs["extrapolation_value"]))
    return Bounded(
        np.concatenate([y.value for y in crops]),
        np.concatenate([y.error for y in crops]),
        np.concatenate([y.ambiguous for y in crops]),
        x.dtype,
    )


KERNELS: dict[str, Kernel] = {
    "image.resize1d": resize,
    "image.resize2d": resize,
    "image.resize3d": resize,
    "nn.upsampling": upsampling,
    "nn.upsampling3d": upsampling,
    "image.crop_and_resize": crop_and_resize,
}
