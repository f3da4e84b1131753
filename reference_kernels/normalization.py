"""Kernels of normalisations.

The bounds hold for an implementation that works in the graph's dtype or a wider one; that sums in
any order; that computes the variance as mean((x - mean)^2) or as mean(x^2) - mean^2; and that
scales x - mean, or scales x and mean separately. Where the variance's interval reaches down to
-epsilon, the result is ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .bounded import (
    LARGEST,
    SMALLEST_NORMAL,
    UNIT_ROUNDOFF,
    Bounded,
    accumulated,
    accumulator,
    arithmetic,
    gamma,
    overflowing,
)
from .elementwise import Attrs, Kernel
from .reduction import axes_of

#: A value and its absolute error.
Pair = tuple[np.ndarray, np.ndarray]

#: Number of roundings on the longest path from x, mean and scale to the result: v + epsilon and
#: epsilon itself (together 1, under the root), root, reciprocal (or an approximate reciprocal root:
#: 2), times gamma, times x, minus mean, plus beta, and one more if x - mean comes first.
_ROUNDINGS = 9
#: Share of the batch's statistic in the new moving statistic; TVM's default.
_MOMENTUM = 0.1


def _known(x: Bounded) -> tuple[np.ndarray, np.ndarray]:
    """Returns values and errors; the error of an ambiguous element is 0."""
    return x.value, np.where(x.ambiguous, 0.0, x.error)


def _mean(v: np.ndarray, axes: tuple[int, ...]) -> Any:
    return np.mean(v, axis=axes, keepdims=True) if axes else v


def _moments(x: Bounded, axes: tuple[int, ...]) -> tuple[Pair, Pair]:
    """Returns mean and variance over `axes` (kept with extent 1), each with its error.

    The mean of n elements is off by gamma(n + 3) * mean|x|, for the sum and the division by n. A
    variance of two passes is off by d^2 if the mean is off by d, and by gamma(n + 6) for the
    squares. One of a single pass is off by gamma(n + 4) * mean(x^2), by 2 |mean| d + d^2 for the
    square of the mean, and by a rounding of that square and one of the difference. Operands off by
    e move the variance by at most 2 mean(|x - mean| e) + mean(e^2). The bound covers both ways to
    compute the variance. Where a sum may overflow, the error of the variance is infinite.
    """
    sums = accumulator(x.dtype)
    u, tiny = sums.u, sums.lost
    n = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    value, error = _known(x)
    largest = np.abs(value) + error
    mean = _mean(value, axes)
    off = gamma(n + 3, u) * _mean(largest, axes) + tiny
    centred = value - mean
    variance = _mean(centred * centred, axes)
    squares = _mean(largest * largest, axes)
    moved = _mean(2 * np.abs(centred) * error + error * error, axes)
    # mean(x^2) bounds the variance and the mean's square.
    one_pass = gamma(n + 6, u) * squares + 2 * np.abs(mean) * off + off * off
    one_pass = one_pass + 2 * u * (squares + mean * mean + one_pass) + 3 * tiny
    lost = overflowing(n * np.maximum(squares, _mean(largest, axes)) * (1 + gamma(n + 6, u)), sums, x.dtype)
    # Where a sum of squares may overflow, the variance may be infinite.
    lost |= np.isfinite(squares) & (n * squares > LARGEST[x.dtype])
    return (mean, off + _mean(error, axes)), (variance, np.where(lost, np.inf, moved + one_pass))


def _root(v: Pair, epsilon: float, dtype: str) -> tuple[Pair, np.ndarray]:
    """Returns 1 / sqrt(v + epsilon) with its error, and where v + epsilon may not be positive."""
    value, error = v
    # Epsilon is rounded to the dtype; a subnormal epsilon may be flushed to zero.
    lost = epsilon if epsilon < SMALLEST_NORMAL[dtype] else UNIT_ROUNDOFF[dtype] * epsilon
    error = error + lost
    low, high = value + epsilon - error, value + epsilon + error
    r = 1 / np.sqrt(value + epsilon)
    spread = np.maximum(1 / np.sqrt(low) - r, r - 1 / np.sqrt(high))
    # The subtraction is itself rounded, in float64.
    return (r, spread + 2**-51 * r), low <= 0


def _scaled(
    x: Bounded,
    mean: Pair,
    root: Pair,
    scale: Bounded | None,
    shift: Bounded | None,
    ambiguous: np.ndarray,
    roundings: int = _ROUNDINGS,
) -> Bounded:
    """Returns (x - mean) * root * scale + shift; all operands broadcast.

    The roundings are off by gamma(roundings) * ((|x| + |mean|) * root * |scale| + |shift|). The
    operands' errors ex, em, er, es and eb (of x, mean, root, scale and shift) propagate as
    (ex + em) * R * S + |x - mean| * (er * S + root * es) + eb, with R = root + er and
    S = |scale| + es.
    """
    tiny = SMALLEST_NORMAL[x.dtype]
    (v, e), (m, em), (r, er) = _known(x), mean, root
    g, eg = _known(scale) if scale is not None else (np.ones(()), np.zeros(()))
    b, eb = _known(shift) if shift is not None else (np.zeros(()), np.zeros(()))
    for operand in (scale, shift):
        ambiguous = ambiguous | (operand.ambiguous if operand is not None else False)
    c = v - m
    value = c * r * g + b
    most_r, most_g = r + er, np.abs(g) + eg
    moved = (e + em) * most_r * most_g + np.abs(c) * (er * most_g + r * eg) + eb
    # A product that underflows is multiplied by the remaining factor.
    moved = moved + tiny * (np.abs(v) + np.abs(m) + most_g)
    magnitude = (np.abs(v) + e + np.abs(m) + em) * most_r * most_g + np.abs(b) + eb
    # The result is NaN if the element, the mean or the root is NaN, and where infinity is
    # multiplied by zero. It is infinite where x is, unless x is multiplied by a factor that may be
    # zero. All other results that are not finite are ambiguous.
    infinite = np.isinf(v) & np.isfinite(m) & np.isfinite(b) & (np.abs(g) > eg) & (r > 0)
    vanishing = np.isinf(v) & (r == 0) & (er == 0)
    special = ~np.isfinite(value)
    ambiguous = ambiguous | (special & ~(np.isnan(v) | np.isnan(m) | np.isnan(r) | infinite | vanishing))
    moved, magnitude = (np.where(special, 0.0, part) for part in (moved, magnitude))
    return accumulated(value, magnitude, moved, roundings, ambiguous, x.dtype, sums=arithmetic(x.dtype))


def _shaped(x: Bounded, axes: Sequence[int], rank: int) -> Bounded:
    """Reshapes gamma or beta to `rank` dimensions, with its own at those axes."""
    shape = [1] * rank
    for axis, d in zip(axes, x.shape, strict=True):
        shape[axis] = d
    return x.map(lambda v: v.reshape(shape))


def _standardized(
    x: Bounded, axes: tuple[int, ...], attrs: Attrs, scale: Bounded, shift: Bounded
) -> Bounded:
    """Normalises x over `axes`; scale and shift broadcast.

    The attributes `scale` and `center` say whether scale and shift are applied.
    """
    ambiguous = np.any(x.ambiguous, axis=axes, keepdims=True)
    mean, variance = _moments(x, axes)
    root, open_ = _root(variance, attrs["epsilon"], x.dtype)
    return _scaled(
        x,
        mean,
        root,
        scale if attrs["scale"] else None,
        shift if attrs["center"] else None,
        ambiguous | open_,
    )


def batch_norm(inputs: Sequence[Bounded], attrs: Attrs) -> tuple[Bounded, ...]:
    """Normalises x by the moving statistics and returns these unchanged.

    With `training` it normalises x by the batch's statistics and returns updated moving statistics.
    """
    x, *others = inputs
    rank, channel = len(x.shape), attrs["axis"] % len(x.shape)
    scale, shift, mean, variance = (_shaped(o, (channel,), rank) for o in others)
    if attrs.get("training"):
        axes = tuple(a for a in range(rank) if a != channel)
        return _standardized(x, axes, attrs, scale, shift), *_renewed(x, axes, others[2:])
    root, open_ = _root(_known(variance), attrs["epsilon"], x.dtype)
    y = _scaled(
        x,
        _known(mean),
        root,
        scale if attrs["scale"] else None,
        shift if attrs["center"] else None,
        x.ambiguous | mean.ambiguous | variance.ambiguous | open_,
    )
    return y, others[2], others[3]


def _renewed(x: Bounded, axes: tuple[int, ...], old: Sequence[Bounded]) -> Iterator[Bounded]:
    """Yields the new moving mean and variance: (1 - m) * old + m * the batch's, with m = 0.1.

    The error is gamma(5) of both terms, for m, 1 - m, the products and the sum, plus the propagated
    errors.
    """
    ambiguous = np.any(x.ambiguous, axis=axes)
    for before, statistic in zip(old, _moments(x, axes), strict=True):
        new, error = (v.reshape(before.shape) for v in statistic)
        value = (1 - _MOMENTUM) * before.value + _MOMENTUM * new
        magnitude = (1 - _MOMENTUM) * np.abs(before.value) + _MOMENTUM * (np.abs(new) + error)
        moved = (1 - _MOMENTUM) * before.error + _MOMENTUM * error
        unsure = ambiguous | before.ambiguous
        yield accumulated(value, magnitude, moved, 5, unsure, x.dtype, sums=arithmetic(x.dtype))


def layer_norm(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, scale, shift = inputs
    rank = len(x.shape)
    axes = tuple(a % rank for a in attrs["axes"])
    return _standardized(x, axes, attrs, _shaped(scale, axes, rank), _shaped(shift, axes, rank))


def instance_norm(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Normalises over all axes except the first and the channel axis."""
    x, scale, shift = inputs
    rank = len(x.shape)
    channel = attrs["axis"] % rank
    axes = tuple(a for a in range(1, rank) if a != channel)
    return _standardized(x, axes, attrs, _shaped(scale, (channel,), rank), _shaped(shift, (channel,), rank))


def group_norm(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Normalises over the channels of each group and all axes after the channel axis."""
    x, scale, shift = inputs
    shape, groups = x.shape, attrs["num_groups"]
    axis, rank = attrs["axis"] % len(shape), len(shape) + 1
    split = (groups, shape[axis] // groups)
    parts = x.map(lambda v: v.reshape(shape[:axis] + split + shape[axis + 1 :]))
    where = (axis, axis + 1)
    scale, shift = (_shaped(o.map(lambda v: v.reshape(split)), where, rank) for o in (scale, shift))
    y = _standardized(parts, tuple(range(axis + 1, rank)), attrs, scale, shift)
    return y.map(lambda v: v.reshape(shape))


def _squares(x: Bounded, axes: tuple[int, ...]) -> Pair:
    """Returns the sum of n squares over `axes` (kept with extent 1), with its error.

    gamma(n + 5) leaves five roundings for the operations that follow. An element off by e moves the
    sum by at most 2 |x| e + e^2.
    """
    value, error = _known(x)
    n = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    most = np.sum((np.abs(value) + error) ** 2, axis=axes, keepdims=True)
    moved = np.sum((2 * np.abs(value) + error) * error, axis=axes, keepdims=True)
    sums = accumulator(x.dtype)
    bound = moved + gamma(n + 5, sums.u) * most + n * sums.lost
    lost = overflowing(most + bound, sums, x.dtype) | (most > LARGEST[x.dtype])
    total = np.sum(value * value, axis=axes, keepdims=True)
    # An infinite sum is exact, however its terms are rounded. A sum that may overflow is infinite
    # for one implementation and not for another.
    return total, np.where(np.isinf(total), 0.0, np.where(lost, np.inf, bound))


#: The mean for normalisations that subtract none.
_ZERO: Pair = (np.zeros(()), np.zeros(()))


def rms_norm(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes x / sqrt(mean(x^2) + epsilon) * weight."""
    x, weight = inputs
    rank = len(x.shape)
    axes = tuple(a % rank for a in attrs["axes"])
    n = np.prod([x.shape[a] for a in axes], dtype=np.int64)
    total, error = _squares(x, axes)
    root, open_ = _root((total / n, error / n), attrs["epsilon"], x.dtype)
    ambiguous = np.any(x.ambiguous, axis=axes, keepdims=True) | open_
    return _scaled(x, _ZERO, root, _shaped(weight, axes, rank), None, ambiguous, 6)


def l2_normalize(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes x / sqrt(max(sum(x^2), eps))."""
    (x,) = inputs
    axes, eps = axes_of(attrs, len(x.shape)), attrs["eps"]
    total, error = _squares(x, axes)
    limited = np.maximum(total, eps)
    low, high = np.maximum(total - error, eps), np.maximum(total + error, eps)
    spread = np.maximum(high - limited, limited - low)
    # eps may be the larger of the two, and it is rounded to the dtype.
    spread = spread + UNIT_ROUNDOFF[x.dtype] * eps + (eps if eps < SMALLEST_NORMAL[x.dtype] else 0.0)
    root, open_ = _root((limited, np.where(np.isinf(total), 0.0, spread)), 0.0, x.dtype)
    # An implementation's maximum of NaN and eps may be either.
    ambiguous = np.any(x.ambiguous, axis=axes, keepdims=True) | open_ | np.isnan(total)
    return _scaled(x, _ZERO, root, None, None, ambiguous, 6)


def lrn(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes x / (bias + alpha / size * sum(x^2 of `size` neighbouring channels)) ** beta.

    All terms of the base are positive, so its roundings are bounded by gamma(size + 6). The power
    is granted 4 + 4 beta |log(base)| roundings, as exp(beta * log(base)).
    """
    (x,) = inputs
    axis, size, bias, beta = attrs["axis"], attrs["size"], attrs["bias"], attrs["beta"]
    half = size // 2
    width = [(half, half) if a == axis else (0, 0) for a in range(len(x.shape))]

    def windows(v: np.ndarray) -> np.ndarray:
        return sliding_window_view(np.pad(v, width), size, axis=axis)

    u = UNIT_ROUNDOFF[x.dtype]
    factor = attrs["alpha"] / size
    value, error = _known(x)
    magnitude = windows(np.abs(value))
    around = windows(error)
    base = bias + factor * np.sum(magnitude**2, axis=-1)
    moved = factor * np.sum((2 * magnitude + around) * around, axis=-1)
    sums = accumulator(x.dtype)
    off = moved + gamma(size + 6, sums.u) * (base + moved) + size * sums.lost
    squares = np.sum((magnitude + around) ** 2, axis=-1)
    off = np.where(overflowing(squares * (1 + gamma(size, sums.u)), sums, x.dtype), np.inf, off)
    power = base**-beta
    off = np.where(np.isinf(base), 0.0, off)
    spread = np.maximum((base - off) ** -beta - power, power - (base + off) ** -beta)
    # The subtraction is itself rounded, in float64.
    log = np.abs(np.log(base)) + off / base
    spread = spread + ((4 + 4 * beta * log) * u + 2**-50) * (power + spread)
    spread = np.where(np.isinf(base), 0.0, spread)
    overflow = np.isfinite(squares) & (squares > LARGEST[x.dtype])
    ambiguous = np.any(windows(x.ambiguous), axis=-1) | (base - off <= 0) | overflow
    return _scaled(x, _ZERO, (power, spread), None, None, ambiguous, 4)


def dropout(inputs: Sequence[Bounded], attrs: Attrs) -> tuple[Bounded, ...]:
    """Returns the operand and a mask of ones, as dropout does at inference."""
    (x,) = inputs
    ones = np.ones(x.shape)
    return x, Bounded(ones, np.zeros(x.shape), np.zeros(x.shape, bool), x.dtype)


KERNELS: dict[str, Kernel] = {
    "nn.batch_norm": batch_norm,
    "nn.layer_norm": layer_norm,
    "nn.group_norm": group_norm,
    "nn.instance_norm": instance_norm,
    "nn.rms_norm": rms_norm,
    "nn.l2_normalize": l2_normalize,
    "nn.lrn": lrn,
    "nn.dropout": dropout,
}
