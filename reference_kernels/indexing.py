"""Kernels of gathering elements by index, of one_hot and of unravel_index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .bounded import UNIT_ROUNDOFF, Bounded, exact, integer
from .elementwise import Attrs, Kernel


def within(index: Bounded, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Clips an index to [0, n), and returns where it was outside or is ambiguous.

    There a correct implementation may read any element.
    """
    outside = (index.value < 0) | (index.value >= n) | index.ambiguous
    return np.clip(index.value, 0, n - 1), outside


def marked(y: Bounded, unknown: np.ndarray) -> Bounded:
    """Returns y, ambiguous where `unknown` is set too; `unknown` covers the leading dimensions."""
    unknown = unknown.reshape(unknown.shape + (1,) * (len(y.shape) - unknown.ndim))
    return replace(y, ambiguous=y.ambiguous | unknown)


def take(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Takes slices of x along an axis by index.

    The result has the batch dimensions, x's dimensions before the axis, the index's other
    dimensions, and x's dimensions after the axis.
    """
    x, index = inputs
    mode, b = attrs["mode"], attrs["batch_dims"]
    if attrs["axis"] is None:
        x, axis = x.map(lambda v: v.reshape(-1)), 0
    else:
        axis = attrs["axis"] % len(x.shape)
    n = x.shape[axis]
    if mode == "wrap":
        index = replace(index, value=index.value % n)
    elif mode == "clip":
        index = replace(index, value=np.clip(index.value, 0, n - 1))
    at, outside = within(index, n)
    batch = np.indices(index.shape[:b]).reshape((b,) + index.shape[:b] + (1,) * (at.ndim - b))

    def place(v: np.ndarray) -> np.ndarray:
        """Moves the index's own dimensions behind those of x that precede the axis."""
        own = range(b, at.ndim)
        return np.moveaxis(v, own, [k + axis - b for k in own])

    where = (*batch, at)
    y = x.map(lambda v: place(np.moveaxis(v, axis, b)[where]))
    outside = outside.reshape(at.shape + (1,) * (len(y.shape) - at.ndim))
    outside = place(np.broadcast_to(outside, at.shape + y.shape[b:axis] + y.shape[axis + at.ndim - b :]))
    if mode == "nan":
        known = exact(np.where(outside, np.nan, 0.0), x.dtype)
        y = replace(
            y,
            value=np.where(outside, known.value, y.value),
            error=np.where(outside, 0.0, y.error),
            ambiguous=y.ambiguous & ~outside,
        )
        outside = outside & False
    return marked(y, outside)


def gather(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, index = inputs
    at, outside = within(index, x.shape[attrs["axis"]])
    return marked(x.map(lambda v: np.take_along_axis(v, at, axis=attrs["axis"])), outside)


def nd_positions(index: Bounded, last: bool, dims: Sequence[int]) -> tuple[list[np.ndarray], np.ndarray]:
    """Returns the coordinates of gather_nd and scatter_nd, and where they are outside of x.

    dims: the extents of the indexed dimensions; one array of coordinates is returned for each.
    last: whether the index's last axis holds the coordinates; otherwise its first axis does.
    """
    index = index.map(lambda v: np.moveaxis(v, -1 if last else 0, 0))
    each = [within(index.map(lambda v, i=i: v[i]), d) for i, d in zip(range(index.shape[0]), dims)]
    return [at for at, _ in each], np.logical_or.reduce([outside for _, outside in each])


def gather_nd(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, b = inputs[0], attrs["batch_dims"]
    at, outside = nd_positions(inputs[1], attrs["index_last"], x.shape[b:])
    batch = np.indices(outside.shape[:b]).reshape((b,) + outside.shape[:b] + (1,) * (outside.ndim - b))
    where = (*batch, *at)
    return marked(x.map(lambda v: v[where]), outside)


def adv_index(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x = inputs[0]
    each = [within(index, d) for index, d in zip(inputs[1:], x.shape)]
    outside = np.logical_or.reduce(np.broadcast_arrays(*(outside for _, outside in each)))
    return marked(x.map(lambda v: v[tuple(at for at, _ in each)]), outside)


def one_hot(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Compares the index to each position; an index out of range selects no position."""
    (x,) = inputs
    dtype, axis = attrs["dtype"], attrs["axis"] % (len(x.shape) + 1)
    positions = np.arange(attrs["depth"]).reshape((-1,) + (1,) * (len(x.shape) - axis))
    hot = np.expand_dims(x.value, axis) == positions
    kind = bool if dtype == "bool" else np.float64 if dtype in UNIT_ROUNDOFF else np.int64
    values = np.array([attrs["off_value"], attrs["on_value"]], kind)
    y = exact(values[hot.astype(np.intp)], dtype)
    unknown = np.broadcast_to(np.expand_dims(x.ambiguous, axis), y.shape)
    return replace(y, ambiguous=unknown & (attrs["on_value"] != attrs["off_value"]))


def unravel_index(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, dims = inputs
    shape = tuple(int(d) for d in np.maximum(dims.value, 1))
    at, outside = within(x, int(np.prod(shape, dtype=np.int64)))
    unknown = outside | np.any(dims.ambiguous)
    return integer(np.stack(np.unravel_index(at, shape)), unknown, x.dtype)


KERNELS: dict[str, Kernel] = {
    "take": take,
    "gather": gather,
    "gather_nd": gather_nd,
    "adv_index": adv_index,
    "one_hot": one_hot,
    "unravel_index": unravel_index,
}
