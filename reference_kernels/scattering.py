"""Kernels that place elements by index or slice, and that mask or reverse sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .bounded import Bounded, accumulated, integer, rounded, unwrapped
from .elementwise import Attrs, Kernel
from .indexing import nd_positions, within
from .reduction import multiplied


def placed(x: Bounded, at: np.ndarray, updates: Bounded, how: str, unknown: Any = False) -> Bounded:
    """Returns x with `updates` placed at flat positions `at`, or combined with the elements there.

    how: "update" replaces; "mean" averages the old element and the update; "add", "mul", "min" and
    "max" combine. Updates may be applied in any order, so several "update" or "mean" updates of one
    position make it ambiguous. unknown: flags of unknown positions; if any is set, the whole result
    is ambiguous.
    """
    n, at = x.value.size, at.reshape(-1)
    count = np.bincount(at, minlength=n)
    touched = count > 0
    old = x.map(lambda v: v.reshape(-1))
    new = updates.map(lambda v: v.reshape(-1))
    both = Bounded(
        np.concatenate([old.value, new.value]),
        np.concatenate([old.error, new.error]),
        np.concatenate([old.ambiguous, new.ambiguous]),
        x.dtype,
    )

    def combining(ufunc: np.ufunc) -> Callable[[np.ndarray], np.ndarray]:
        def reduce(v: np.ndarray) -> np.ndarray:
            out = v[:n].copy()
            ufunc.at(out, at, v[n:])
            return out

        return reduce

    some = combining(np.logical_or)
    if how == "mul":
        y = multiplied(both, combining(np.multiply), some, count + 1, x.dtype)
    elif how == "add":
        y = _added(both, combining(np.add), some(both.ambiguous), count + 1)
    elif how in ("min", "max"):
        y = _chosen(both, combining(np.minimum if how == "min" else np.maximum), some)
    else:
        source = np.zeros(n, np.int64)
        source[at] = np.arange(at.size)
        y = new.map(lambda v: v[source]) if at.size else old
        if how == "mean":
            total = _added(both, combining(np.add), some(both.ambiguous), np.full(n, 2))
            error = np.where(total.ambiguous, 0.0, total.error) / 2
            y = rounded(total.value / 2, error, total.ambiguous, x.dtype, 0.0)
        y = Bounded(y.value, y.error, y.ambiguous | (count > 1), x.dtype)
    ambiguous = np.where(touched, y.ambiguous, old.ambiguous) | np.any(unknown)
    error = np.where(touched, y.error, old.error)
    y = Bounded(np.where(touched, y.value, old.value), error, ambiguous, x.dtype)
    return y.map(lambda v: v.reshape(x.shape))


def _added(both: Bounded, add: Any, ambiguous: np.ndarray, terms: np.ndarray) -> Bounded:
    if not both.is_float:
        largest = integer(unwrapped(lambda v: add(np.abs(v)), both.value), ambiguous, both.dtype)
        return integer(unwrapped(add, both.value), largest.ambiguous, both.dtype)
    magnitude = np.where(np.isfinite(both.value), np.abs(both.value), 0.0)
    error = np.where(both.ambiguous, 0.0, both.error)
    return accumulated(add(both.value), add(magnitude), add(error), terms, ambiguous, both.dtype)


def _chosen(both: Bounded, choose: Any, some: Any) -> Bounded:
    """Combines by min or max, which map the intervals' ends to the result's; NaN is ambiguous."""
    y = choose(both.value)
    unknown = some(both.ambiguous | np.isnan(both.value))
    if not both.is_float:
        return integer(y, unknown, both.dtype)
    error = np.where(both.error > 0, both.error, 0.0)
    spread = np.maximum(choose(both.value + error) - y, y - choose(both.value - error))
    return rounded(y, np.where(np.isinf(y), 0.0, spread), unknown, both.dtype, 0.0)


def scatter_elements(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, index, updates = inputs
    axis = attrs["axis"] % len(x.shape)
    at, outside = within(index, x.shape[axis])
    positions = np.arange(x.value.size).reshape(x.shape)
    return placed(x, np.take_along_axis(positions, at, axis), updates, attrs["reduction"], outside)


def scatter_nd(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, index, updates = inputs
    at, outside = nd_positions(index, attrs["index_last"], x.shape)
    positions = np.arange(x.value.size).reshape(x.shape)
    return placed(x, positions[tuple(at)], updates, attrs["mode"], outside)


def index_put(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, values = inputs[0], inputs[-1]
    each = [within(index, d) for index, d in zip(inputs[1:-1], x.shape)]
    at = np.ravel_multi_index(tuple(at for at, _ in each), x.shape)
    outside = np.logical_or.reduce([outside for _, outside in each])
    return placed(x, at, values, "add" if attrs["accumulate"] else "update", outside)


def strided_set(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, values = inputs
    where = tuple(map(slice, attrs["begin"], attrs["end"], attrs["strides"]))
    return placed(x, np.arange(x.value.size).reshape(x.shape)[where], values, "update")


def slice_scatter(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, values = inputs
    at = np.moveaxis(np.arange(x.value.size).reshape(x.shape), attrs["axis"], -1)
    at = at[..., attrs["start"] : attrs["end"] : attrs["step"]]
    return placed(x, np.moveaxis(at, -1, attrs["axis"]), values, "update")


def matrix_set_diag(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Sets the diagonals of a matrix.

    Diagonal k of a band (low, high) is row high - k of the second operand; a shorter diagonal is
    padded on the left or on the right, as `align` says.
    """
    x, diagonal = inputs
    m, n = x.shape[-2:]
    low, high = attrs["k"] if isinstance(attrs["k"], tuple) else (attrs["k"], attrs["k"])
    above, below = (side == "RIGHT" for side in attrs["align"].split("_"))
    row, column = np.indices((m, n))
    k = column - row
    inside = (k >= low) & (k <= high)
    length = np.where(k >= 0, np.minimum(n - k, m), np.minimum(n, m + k))
    padding = np.where(np.where(k >= 0, above, below), diagonal.shape[-1] - length, 0)
    at = np.where(k >= 0, row, column) + (padding if low < high else 0)
    at, k = np.where(inside, at, 0), np.where(inside, high - k, 0)

    def part(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        return np.where(inside, new[..., k, at] if low < high else new[..., at], old)

    return Bounded(
        part(x.value, diagonal.value),
        part(x.error, diagonal.error),
        part(x.ambiguous, diagonal.ambiguous),
        x.dtype,
    )


def sequence_mask(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    x, lengths = inputs
    axis, tail = attrs["axis"], (1,) * (len(x.shape) - 2)
    step, length = np.arange(x.shape[axis]), lengths.value
    masked = step[:, None] >= length if axis == 0 else step >= length[:, None]
    unknown = np.broadcast_to(lengths.ambiguous if axis == 0 else lengths.ambiguous[:, None], masked.shape)
    masked, unknown = masked.reshape(masked.shape + tail), unknown.reshape(masked.shape + tail)
    mask: Bounded
    if x.is_float:
        # Multiples of 1/256 count as values that the dtype holds without rounding.
        held = attrs["mask_value"] * 256 == int(attrs["mask_value"] * 256)
        mask = rounded(np.array(attrs["mask_value"]), 0.0, False, x.dtype, 0.0 if held else 1.0)
    else:
        mask = integer(np.array(int(attrs["mask_value"])), False, x.dtype)
    return Bounded(
        np.where(masked, mask.value, x.value),
        np.where(masked, mask.error, x.error),
        np.where(masked, False, x.ambiguous) | unknown,
        x.dtype,
    )


def reverse_sequence(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Reverses the first `length` elements of each sequence; lengths are clipped to [1, extent]."""
    x, lengths = inputs
    rank = len(x.shape)
    axis, batch = attrs["seq_axis"] % rank, attrs["batch_axis"] % rank
    n = x.shape[axis]

    def along(v: np.ndarray, a: int) -> np.ndarray:
        return v.reshape([-1 if i == a else 1 for i in range(rank)])

    step, length = along(np.arange(n), axis), along(np.clip(lengths.value, 1, n), batch)
    source = np.broadcast_to(np.where(step < length, length - 1 - step, step), x.shape)
    y = x.map(lambda v: np.take_along_axis(v, source, axis))
    return Bounded(y.value, y.error, y.ambiguous | along(lengths.ambiguous, batch), x.dtype)


KERNELS: dict[str, Kernel] = {
    "scatter_elements": scatter_elements,
    "scatter_nd": scatter_nd,
    "index_put": index_put,
    "strided_set": strided_set,
    "slice_scatter": slice_scatter,
    "matrix_set_diag": matrix_set_diag,
    "sequence_mask": sequence_mask,
    "reverse_sequence": reverse_sequence,
}
