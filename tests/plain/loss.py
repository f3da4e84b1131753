"""Plain evaluations of losses, one target at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from .sums import Sum


def _nll(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
    x, targets, weights = arrays
    losses, used = np.zeros(targets.shape, x.dtype), np.zeros(targets.shape, x.dtype)
    for at in np.ndindex(targets.shape):
        target = int(targets[at])
        if target != a["ignore_index"]:
            used[at] = weights[target]
            losses[at] = -x[(at[0], target, *at[1:])] * weights[target]
    if a["reduction"] == "none":
        return losses
    total = add(losses.reshape(-1))
    return np.asarray(total / add(used.reshape(-1)) if a["reduction"] == "mean" else total, x.dtype)


def _entropy(x: np.ndarray, labels: np.ndarray, add: Sum) -> np.ndarray:
    return np.asarray(-add((x * labels).reshape(-1)) / x.dtype.type(len(x)), x.dtype)


PLAIN: dict[str, Any] = {
    "nn.nll_loss": _nll,
    "nn.cross_entropy_with_logits": lambda arrays, a, outs, add: _entropy(*arrays, add),
    "nn.cross_entropy": lambda arrays, a, outs, add: _entropy(np.log(arrays[0]), arrays[1], add),
}
