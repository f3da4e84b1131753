"""Plain evaluation of attention, one batch, head and query at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from .sums import Sum


def _attention(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
    q, k, v = arrays[:3]
    kind = q.dtype.type
    y = np.empty(outs[0].shape, q.dtype)
    shift = abs(q.shape[1] - k.shape[1]) if a["causal_mask"] == "BottomRight" else 0
    for b, i, n in np.ndindex(q.shape[:3]):
        seen = k.shape[1] if a["causal_mask"] is None else min(k.shape[1], i + shift + 1)
        scores = add(q[b, i, n] * k[b, :seen, n])
        scores = scores / np.sqrt(kind(q.shape[3])) if a["scale"] is None else scores * kind(a["scale"])
        if len(arrays) > 3:
            full = np.broadcast_to(arrays[3], (q.shape[0], q.shape[2], q.shape[1], k.shape[1]))
            scores = scores + full[b, n, i, :seen]
        powers = np.exp(scores - scores.max())
        y[b, i, n] = add((v[b, :seen, n] * powers[:, None]).T) / add(powers)
    return y


PLAIN: dict[str, Any] = {"nn.attention": _attention, "nn.attention_bias": _attention}
