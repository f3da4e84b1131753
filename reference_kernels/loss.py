"""Kernels of the losses nll_loss and cross_entropy, the latter also with logits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .bounded import Bounded, accumulator, gamma, rounded
from .elementwise import Attrs, Kernel, monotone, multiply
from .matrix import contracted
from .reduction import summed

_log = monotone(np.log, 4.0)


def nll_loss(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes -p * w, p being the prediction for the target class and w the weight of that class.

    The weight is 0 where the target is ignored. The reduction "sum" sums the products; "mean"
    divides that sum by the sum of the weights, which has an error of its own.
    """
    x, targets, weights = inputs
    ignored = targets.value == attrs["ignore_index"]
    at = np.where(ignored, 0, targets.value)
    p = x.map(lambda v: np.take_along_axis(v, at[:, None], axis=1)[:, 0])
    p = p.map(lambda v: np.where(ignored, np.zeros((), v.dtype), v))
    w = weights.map(lambda v: np.where(ignored, np.zeros((), v.dtype), v[at]))
    products = multiply([Bounded(-p.value, p.error, p.ambiguous, x.dtype), w], {})
    unsure = products.ambiguous | targets.ambiguous
    # An ignored product is 0 with an unknown sign; the least error makes a division by it
    # ambiguous.
    error = np.where(ignored, np.finfo(np.float64).smallest_subnormal, products.error)
    products = Bounded(products.value, error, unsure, x.dtype)
    if attrs["reduction"] == "none":
        return products
    axes = tuple(range(len(at.shape)))
    total = summed(products, axes, False)
    if attrs["reduction"] == "sum":
        return total
    u = accumulator(x.dtype).u
    size = np.sum(w.value)
    off = np.sum(np.where(w.ambiguous, 0.0, w.error))
    off = off + gamma(at.size, u) * (np.sum(np.abs(w.value)) + off)
    mean = total.value / size
    moved = (np.where(total.ambiguous, 0.0, total.error) + np.abs(mean) * off) / (np.abs(size) - off)
    # If all targets are ignored, the mean is 0 / 0: NaN, exactly.
    moved = np.where(ignored.all(), 0.0, moved)
    open_ = ~ignored.all() & (np.abs(size) <= off)
    return rounded(mean, moved, total.ambiguous | w.ambiguous.any() | open_, x.dtype, 3.0)


def cross_entropy_with_logits(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes -sum(x * labels) / batch.

    The division, or the product with a reciprocal, is granted three roundings.
    """
    x, labels = inputs
    total = contracted(lambda a, b: np.asarray(np.sum(a * b)), x, labels, x.value.size)
    batch = x.shape[0]
    error = np.where(total.ambiguous, 0.0, total.error) / batch
    return rounded(-total.value / batch, error, total.ambiguous, x.dtype, 3.0)


def cross_entropy(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes -sum(log(x) * labels) / batch."""
    x, labels = inputs
    logarithm = _log([x], {})
    assert isinstance(logarithm, Bounded)
    return cross_entropy_with_logits([logarithm, labels], attrs)


KERNELS: dict[str, Kernel] = {
    "nn.nll_loss": nll_loss,
    "nn.cross_entropy_with_logits": cross_entropy_with_logits,
    "nn.cross_entropy": cross_entropy,
}
