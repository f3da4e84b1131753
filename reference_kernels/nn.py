"""Kernels of bias_add, batch_flatten, pad, softmax and log_softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .bounded import SMALLEST_NORMAL, UNIT_ROUNDOFF, Bounded, accumulator, gamma, rounded
from .elementwise import Attrs, Kernel, add

#: Error granted to exp and log, in units roundoff of the result, as in the elementwise kernels.
EXP_ULPS = 4.0


def bias_add(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, bias = inputs
    rank = len(x.shape)
    shape = [1] * rank
    shape[attrs["axis"] % rank] = -1
    return add([x, bias.map(lambda v: v.reshape(shape))], attrs)


def batch_flatten(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    return x.map(lambda v: v.reshape(v.shape[0], int(np.prod(v.shape[1:]))))


def pad(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    width = [tuple(w) for w in attrs["pad_width"]]
    fill = attrs["pad_value"]
    if attrs["pad_mode"] != "constant":
        return x.map(lambda v: np.pad(v, width, attrs["pad_mode"]))
    return Bounded(
        np.pad(x.value, width, constant_values=fill),
        np.pad(x.error, width),
        np.pad(x.ambiguous, width),
        x.dtype,
    )


class Exponentials:
    """The exponentials exp(x - max) along an axis and their sum, with bounds on their errors.

    With D the distance of an element from the maximum, the subtraction is off by u * D, exp adds
    EXP_ULPS roundings, and the element's own error e acts as a factor exp(e). An exponential is
    thus off by a factor within exp(+-t), t = e + u * D + (EXP_ULPS + 1) * u. The maximum's own
    error cancels, except in D. The sum is off by the mean of these factors, weighted with the
    exponentials, and by gamma(n).
    """

    def __init__(self, x: Bounded, axis: int) -> None:
        u, n = UNIT_ROUNDOFF[x.dtype], x.shape[axis]
        along: dict[str, Any] = {"axis": axis, "keepdims": True}
        error = np.where(np.isfinite(x.error), x.error, 0.0)
        self.ambiguous = np.any(x.ambiguous, **along)
        self.maximum = np.max(x.value, **along)
        self.shifted = x.value - self.maximum
        self.values = np.exp(self.shifted)
        self.total = np.sum(self.values, **along)
        self.weights = self.values / self.total
        distance = np.abs(self.shifted) + error + np.max(error, **along)
        # exp(-inf) is exactly 0.
        t = np.where(np.isinf(distance), 0.0, error + u * distance + (EXP_ULPS + 1) * u)
        #: Logarithms of the error factors: `each` of every exponential in both directions, `up` and
        #: `down` of the sum.
        self.each = t
        sums = accumulator(x.dtype)
        summing = gamma(n, sums.u) + n * sums.lost
        self.up = np.log1p(np.sum(self.weights * np.expm1(t), **along)) + summing
        self.down = -np.log1p(np.sum(self.weights * np.expm1(-t), **along)) + summing


def softmax(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    e = Exponentials(x, attrs["axis"])
    factor = np.maximum(np.expm1(e.each + e.down), -np.expm1(-e.each - e.up))
    propagated = np.where(e.weights > 0, e.weights * factor, 0.0) + SMALLEST_NORMAL[x.dtype]
    return rounded(e.weights, propagated, e.ambiguous, x.dtype, 3.0)


def log_softmax(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes x - max - log(sum); the bound covers x - (max + log(sum)) too."""
    (x,) = inputs
    u = UNIT_ROUNDOFF[x.dtype]
    e = Exponentials(x, attrs["axis"])
    log_total = np.log(e.total)
    y = e.shifted - log_total
    error = np.where(np.isfinite(x.error), x.error, 0.0)
    propagated = error + np.maximum(e.up, e.down)
    propagated = propagated + u * (np.abs(e.shifted) + np.abs(e.maximum))
    propagated = propagated + (EXP_ULPS + 1) * u * (log_total + propagated)
    propagated = np.where(np.isinf(y), 0.0, propagated)
    return rounded(y, propagated, e.ambiguous, x.dtype, 1.0)


KERNELS: dict[str, Kernel] = {
    "nn.bias_add": bias_add,
    "nn.batch_flatten": batch_flatten,
    "nn.pad": pad,
    "nn.softmax": softmax,
    "nn.log_softmax": log_softmax,
}
