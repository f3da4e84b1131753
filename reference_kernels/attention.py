"""Kernels of attention.

The bounds hold for an implementation that works in the graph's dtype or a wider one; that scales
the query, scales the scores, or divides the scores; whose softmax subtracts the maximum (under a
mask possibly the larger of the maximum and 0, as TVM does) and divides before or after the sum over
keys; and that, if it processes the keys in tiles and corrects the partial sums (FlashAttention),
uses tiles of at least 16 keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .bounded import SMALLEST_NORMAL, UNIT_ROUNDOFF, Bounded, accumulator, rounded
from .elementwise import Attrs, Kernel, add
from .matrix import contracted
from .nn import EXP_ULPS, Exponentials

#: Number of keys in the smallest tile of a tiled implementation.
_TILE = 16


def _contracted(subscripts: str, a: Bounded, b: Bounded, terms: int) -> Bounded:
    return contracted(lambda p, q: np.einsum(subscripts, p, q), a, b, terms)


def _visible(queries: int, keys: int, mask: str | None) -> np.ndarray:
    """Returns which keys each query attends to, bool [queries, keys]; without a mask, all keys."""
    if mask is None:
        return np.ones((queries, keys), bool)
    return np.tri(queries, keys, abs(queries - keys) if mask == "BottomRight" else 0, bool)


def _scores(q: Bounded, k: Bounded, scale: float | None) -> Bounded:
    """Returns the scaled scores query . key, [batch, heads, queries, keys].

    Five roundings more than the sum's are granted: a root, the rounded scale, and a division of
    three roundings.
    """
    dim = q.shape[-1]
    s = _contracted("bsnh,btnh->bnst", q, k, dim + 5)
    factor = 1 / math.sqrt(dim) if scale is None else scale
    error = np.where(s.ambiguous, 0.0, s.error) * abs(factor)
    return rounded(s.value * factor, error, s.ambiguous, s.dtype, 0.0)


def _weights(scores: Bounded, visible: np.ndarray) -> Bounded:
    """Returns the softmax over the visible keys; other keys get exactly 0."""
    u, tiny = UNIT_ROUNDOFF[scores.dtype], SMALLEST_NORMAL[scores.dtype]
    keys = scores.shape[-1]
    x = Bounded(
        np.where(visible, scores.value, -np.inf),
        np.where(visible, scores.error, 0.0),
        scores.ambiguous & visible,
        scores.dtype,
    )
    e = Exponentials(x, -1)
    # If 0 is subtracted where the maximum is less, each exponential is smaller by exp(shift).
    hidden = ~np.all(visible, axis=-1, keepdims=True)
    shift = np.where(hidden, np.maximum(-e.maximum, 0.0), 0.0)
    lost = np.where(shift > 0, keys * tiny * np.exp(shift), 0.0)
    tiles = keys // _TILE * (EXP_ULPS * u + 2 * accumulator(x.dtype).u)
    off = u * shift + tiles
    each = e.each + off
    up, down = e.up + off + lost, e.down + off + lost
    factor = np.maximum(np.expm1(each + down), -np.expm1(-each - up))
    error = np.where(e.weights > 0, e.weights * factor, 0.0) + tiny + lost
    ambiguous = e.ambiguous | (lost > 0.1)
    w = rounded(e.weights, error, ambiguous, x.dtype, 3.0)
    return Bounded(
        np.where(visible, w.value, 0.0), np.where(visible, w.error, 0.0), w.ambiguous & visible, w.dtype
    )


def _sure(x: Bounded) -> Bounded:
    """Returns x with no element ambiguous; the errors of ambiguous elements become 0."""
    return Bounded(x.value, np.where(x.ambiguous, 0.0, x.error), np.zeros(x.shape, bool), x.dtype)


def attention(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes softmax(query . key * scale + bias) . value for each batch and head."""
    q, k, v, *bias = inputs
    scores = _scores(q, k, attrs["scale"])
    for b in bias:
        scores = add([scores, b], {})
    visible = np.broadcast_to(_visible(q.shape[1], k.shape[1], attrs["causal_mask"]), scores.shape)
    w = _weights(scores, visible)
    # The value of a masked key has no effect, except that 0 times infinity may give NaN.
    subscripts = "bnst,btnh->bsnh"
    y = _contracted(subscripts, _sure(w), _sure(v), k.shape[1] + k.shape[1] // _TILE)

    def touched(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum(subscripts, a.astype(np.float64), b.astype(np.float64)) > 0)

    ambiguous = y.ambiguous | touched(visible, v.ambiguous) | touched(~visible, ~np.isfinite(v.value))
    ambiguous = ambiguous | touched(w.ambiguous, np.ones(v.shape))
    return Bounded(y.value, np.where(ambiguous, np.inf, y.error), ambiguous, y.dtype)


KERNELS: dict[str, Kernel] = {"nn.attention": attention, "nn.attention_bias": attention}
