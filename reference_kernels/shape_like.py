"""Kernels of operators that take the result's shape from another tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .bounded import Bounded
from .elementwise import Attrs, Kernel
from .reduction import summed


def slice_like(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, like = inputs
    rank = len(x.shape)
    named = range(rank) if attrs["axes"] is None else [a % rank for a in attrs["axes"]]
    kept = tuple(slice(like.shape[a] if a in named else None) for a in range(rank))
    return x.map(lambda v: v[kept])


def reshape_like(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, like = inputs
    end = len(x.shape) if attrs["lhs_end"] is None else attrs["lhs_end"]
    part = like.shape[attrs["rhs_begin"] : attrs["rhs_end"]]
    shape = x.shape[: attrs["lhs_begin"]] + part + x.shape[end:]
    return x.map(lambda v: v.reshape(shape))


def broadcast_to_like(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, like = inputs
    return x.map(lambda v: np.broadcast_to(v, like.shape))


def _collapsed(x: Bounded, shape: tuple[int, ...]) -> Bounded:
    """Sums x to `shape`, over the axes that a broadcast from `shape` would add or widen."""
    more = len(x.shape) - len(shape)
    widened = (a for a, d in enumerate(shape, more) if d == 1 != x.shape[a])
    axes = (*range(more), *widened)
    return summed(x, axes, True).map(lambda v: v.reshape(shape)) if axes else x


def collapse_sum_like(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, like = inputs
    return _collapsed(x, like.shape)


def collapse_sum_to(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    return _collapsed(inputs[0], tuple(attrs["shape"]))


KERNELS: dict[str, Kernel] = {
    "slice_like": slice_like,
    "reshape_like": reshape_like,
    "broadcast_to_like": broadcast_to_like,
    "collapse_sum_like": collapse_sum_like,
    "collapse_sum_to": collapse_sum_to,
}
