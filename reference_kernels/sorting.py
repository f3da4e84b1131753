"""Kernels of sorting, and of searching in sorted sequences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .bounded import Bounded, integer, rounded
from .elementwise import Attrs, Kernel


def _rows(x: Bounded, axis: int) -> Bounded:
    return x.map(lambda v: np.moveaxis(v, axis, -1))


def _back(y: Bounded, axis: int) -> Bounded:
    return y.map(lambda v: np.moveaxis(v, -1, axis))


def _ordered(x: Bounded, ascending: bool) -> Bounded:
    """Returns the values sorted along the last axis.

    The lower ends and the upper ends of the floats' intervals are sorted too; they bound the
    results. A row of floats with a NaN or an ambiguous element is ambiguous. An ambiguous integer
    may have any value: a result is ambiguous if it depends on that value.
    """
    order = slice(None) if ascending else slice(None, None, -1)
    if not x.is_float:
        least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
        low = np.sort(np.where(x.ambiguous, least, x.value), axis=-1)[..., order]
        high = np.sort(np.where(x.ambiguous, most, x.value), axis=-1)[..., order]
        # The operator that computed a value has already marked its overflow.
        return Bounded(low, np.zeros(low.shape), low != high, x.dtype)
    lost = np.any(x.ambiguous | np.isnan(x.value), axis=-1, keepdims=True)
    error = np.where(x.ambiguous, 0.0, x.error)
    y = np.sort(x.value, axis=-1)[..., order]
    up = np.sort(x.value + error, axis=-1)[..., order] - y
    down = y - np.sort(x.value - error, axis=-1)[..., order]
    spread = np.where(np.isfinite(y), np.maximum(up, down), 0.0)
    return rounded(y, spread, np.broadcast_to(lost, y.shape), x.dtype, 0.0)


def _order(x: Bounded, ascending: bool, dtype: str) -> Bounded:
    """Returns the positions along the last axis in the order of the values.

    A position is ambiguous unless the intervals of all elements before it lie below the element's,
    and those of all elements after it lie above. TVM does not specify the order of equal elements.
    """
    # Integers are reversed as -1 - x, which does not overflow.
    value = x.value if ascending else -x.value if x.is_float else ~x.value
    at = np.argsort(value, axis=-1, kind="stable")
    if x.is_float:
        error = np.where(x.ambiguous | np.isnan(x.value), np.inf, x.error)
        exact = error == 0
        low = np.where(exact, value, np.where(np.isinf(error), -np.inf, value - error))
        high = np.where(exact, value, np.where(np.isinf(error), np.inf, value + error))
    else:
        low = np.where(x.ambiguous, np.iinfo(np.int64).min, value)
        high = np.where(x.ambiguous, np.iinfo(np.int64).max, value)
    low, high = (np.take_along_axis(v, at, axis=-1) for v in (low, high))
    unknown = np.zeros(at.shape, bool)
    if at.shape[-1] > 1:
        unknown[..., 1:] |= np.maximum.accumulate(high, axis=-1)[..., :-1] >= low[..., 1:]
        least = np.minimum.accumulate(low[..., ::-1], axis=-1)[..., ::-1]
        unknown[..., :-1] |= high[..., :-1] >= least[..., 1:]
    return integer(at, unknown, dtype)


def sort(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    return _back(_ordered(_rows(inputs[0], attrs["axis"]), attrs["is_ascend"]), attrs["axis"])


def argsort(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    rows = _rows(inputs[0], attrs["axis"])
    return _back(_order(rows, attrs["is_ascend"], attrs["dtype"]), attrs["axis"])


def topk(inputs: Sequence[Bounded], attrs: Attrs) -> tuple[Bounded, ...]:
    rows, k = _rows(inputs[0], attrs["axis"]), attrs["k"]
    results = []
    if attrs["ret_type"] != "indices":
        results.append(_ordered(rows, attrs["is_ascend"]))
    if attrs["ret_type"] != "values":
        results.append(_order(rows, attrs["is_ascend"], attrs["dtype"]))
    some = slice(k) if k > 0 else slice(None)
    return tuple(_back(y.map(lambda v: v[..., some]), attrs["axis"]) for y in results)


def _position(sequence: Bounded, x: Bounded, right: bool, dtype: str) -> Bounded:
    """Counts the elements of the sequence (last axis) that are below x, or at most x if `right`."""
    below = np.less_equal if right else np.less

    def count(edges: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Counts in one sequence of `edges` for each row of v, or in one sequence for all rows."""
        return np.asarray(np.sum(below(edges[..., None, :], v[..., None]), axis=-1))

    if x.is_float:
        low, high = count(sequence.high, x.low), count(sequence.low, x.high)
    else:
        low = high = count(sequence.value, x.value)
    nan = np.isnan(x.value) | x.ambiguous
    unclear = np.any(sequence.ambiguous | np.isnan(sequence.value), axis=-1, keepdims=True)
    return integer(low, (low != high) | nan | np.broadcast_to(unclear, x.shape), dtype)


def searchsorted(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    return _position(inputs[0], inputs[1], attrs["right"], attrs["dtype"])


def bucketize(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    dtype = "int32" if attrs["out_int32"] else "int64"
    return _position(inputs[1], inputs[0], attrs["right"], dtype)


KERNELS: dict[str, Kernel] = {
    "sort": sort,
    "argsort": argsort,
    "topk": topk,
    "searchsorted": searchsorted,
    "bucketize": bucketize,
}
