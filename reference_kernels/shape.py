"""Kernels of reshaping, transposition, joining, splitting, slicing and broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_byoc.operators.reshaping import reshaped

from .bounded import Bounded
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


KERNELS: dict[str, Kernel] = {
    "reshape": reshape,
    "transpose": transpose,
    "concatenate": concatenate,
    "split": split,
    "squeeze": squeeze,
    "expand_dims": expand_dims,
    "strided_slice": strided_slice,
    "broadcast_to": broadcast_to,
}
