"""Kernels that move elements, and cast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_byoc.operators.reshaping import reshaped

from .bounded import SMALLEST_NORMAL, UNIT_ROUNDOFF, Bounded, integer, rounded
from .elementwise import Attrs, Kernel


def reshape(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    shape = reshaped(x.shape, attrs["newshape"])
    return x.map(lambda v: v.reshape(shape))


def transpose(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    return x.map(lambda v: np.transpose(v, attrs["axes"]))


def concatenate(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    axis = attrs["axis"]
    return Bounded(
        np.concatenate([x.value for x in inputs], axis),
        np.concatenate([x.error for x in inputs], axis),
        np.concatenate([x.ambiguous for x in inputs], axis),
        inputs[0].dtype,
    )


def split(inputs: Sequence[Bounded], attrs: Attrs) -> tuple[Bounded, ...]:
    (x,) = inputs
    where, axis = attrs["indices_or_sections"], attrs["axis"]
    where = where if isinstance(where, int) else list(where)
    parts = [np.split(v, where, axis=axis) for v in (x.value, x.error, x.ambiguous)]
    return tuple(Bounded(v, e, a, x.dtype) for v, e, a in zip(*parts))


def squeeze(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    axis = attrs["axis"]
    return x.map(lambda v: np.squeeze(v, None if axis is None else tuple(axis)))


def expand_dims(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    axis = attrs["axis"] % (len(x.shape) + 1)
    return x.map(lambda v: np.expand_dims(v, tuple(range(axis, axis + attrs["num_newaxis"]))))


def strided_slice(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    axes = range(len(x.shape)) if attrs["axes"] is None else attrs["axes"]
    index = [slice(None)] * len(x.shape)
    for axis, begin, end, stride in zip(axes, attrs["begin"], attrs["end"], attrs["strides"]):
        index[axis] = slice(begin, end, stride)
    return x.map(lambda v: v[tuple(index)])


def broadcast_to(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    return x.map(lambda v: np.broadcast_to(v, tuple(attrs["shape"])))


def cast(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """To a float type: rounded where the value is not representable. To an integer: towards zero,
    ambiguous where the interval crosses an integer, for NaN and beyond the type's range."""
    (x,) = inputs
    dtype = attrs["dtype"]
    if dtype in UNIT_ROUNDOFF:
        value = x.value.astype(np.float64)
        if x.is_float and UNIT_ROUNDOFF[dtype] <= UNIT_ROUNDOFF[x.dtype]:
            # Every value and every error is representable; subnormals may be flushed to zero.
            tiny = np.where(np.abs(value) - x.error < SMALLEST_NORMAL[x.dtype], 1.0, 0.0)
            tiny = np.where((value == 0) & (x.error == 0), 0.0, tiny * SMALLEST_NORMAL[x.dtype])
            return Bounded(value, x.error + tiny, x.ambiguous, dtype)
        y = rounded(value, x.error, x.ambiguous, dtype)
        with np.errstate(all="ignore"):
            fits = value.astype(dtype).astype(np.float64) == x.value
        fits &= (np.abs(value) >= SMALLEST_NORMAL[dtype]) | (value == 0)
        unchanged = fits & (x.error == 0) & ~x.ambiguous
        error = np.where(unchanged, 0.0, y.error)
        return Bounded(y.value, error, y.ambiguous & ~unchanged, dtype)
    if not x.is_float:
        return integer(x.value, x.ambiguous, dtype)
    info = np.iinfo(dtype)
    low, high = np.trunc(x.low), np.trunc(x.high)
    unknown = ~((low == high) & (low >= info.min) & (high <= info.max))
    value = np.where(unknown, 0.0, np.trunc(np.where(unknown, 0.0, x.value)))
    return integer(value, x.ambiguous | unknown, dtype)


KERNELS: dict[str, Kernel] = {
    "reshape": reshape,
    "transpose": transpose,
    "concatenate": concatenate,
    "split": split,
    "squeeze": squeeze,
    "expand_dims": expand_dims,
    "strided_slice": strided_slice,
    "broadcast_to": broadcast_to,
    "cast": cast,
}
