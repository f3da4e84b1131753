"""Conversions of TVM attributes to kernel attributes that Relay and Relax have in common.

An adapter gets a TVM attribute object and the operands and results of the call, and returns plain
Python values with defaults filled in and negative axes counted from the front. It raises
``Unsupported`` if no kernel implements these attributes.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Sequence, Tuple

from .extent import Length
from .subgraph import Buffer

Attrs = Dict[str, Any]
Buffers = Sequence[Buffer]
Adapter = Callable[[Any, Buffers, Buffers], Attrs]


class Unsupported(Exception):
    """Raised if a call cannot be translated into a step."""


def ints(values: Any) -> Tuple[int, ...]:
    """Converts one of TVM's arrays of integers to a tuple."""
    return tuple(int(value) for value in values)


def known(extent: Length) -> int:
    """Returns an extent. Raises ``Unsupported`` if it is open."""
    if not isinstance(extent, int):
        raise Unsupported
    return extent


def none(attrs: Any, inputs: Buffers, outputs: Buffers) -> Attrs:
    """Returns no attributes: the kernel needs only the shapes."""
    return {}


def axis(attrs: Any, inputs: Buffers, outputs: Buffers) -> Attrs:
    """Returns the axis of bias_add, softmax, concatenate or split."""
    if attrs.axis is None:
        raise Unsupported
    return {"axis": int(attrs.axis) % len(inputs[0].shape)}


def conv2d(attrs: Any, inputs: Buffers, outputs: Buffers) -> Attrs:
    return {
        "strides": ints(attrs.strides),
        "padding": _four(attrs.padding),
        "dilation": ints(attrs.dilation),
        "groups": int(attrs.groups),
        "data_layout": _layout(attrs, str(attrs.data_layout)),
        "kernel_layout": str(attrs.kernel_layout),
    }


def pool2d(attrs: Any, inputs: Buffers, outputs: Buffers) -> Attrs:
    # ceil_mode is not needed: it only changes the shape of the result, which is known.
    return {
        "pool_size": ints(attrs.pool_size),
        "strides": ints(attrs.strides),
        "dilation": ints(attrs.dilation),
        "padding": _four(attrs.padding),
        "layout": _layout(attrs, str(attrs.layout)),
    }


def avg_pool2d(attrs: Any, inputs: Buffers, outputs: Buffers) -> Attrs:
    return dict(pool2d(attrs, inputs, outputs), count_include_pad=bool(attrs.count_include_pad))


def global_pool2d(attrs: Any, inputs: Buffers, outputs: Buffers) -> Attrs:
    layout = _layout(attrs, str(attrs.layout))
    if layout not in ("NCHW", "NHWC"):
        raise Unsupported
    return {"axes": (layout.index("H"), layout.index("W"))}


def reduce(attrs: Any, inputs: Buffers, outputs: Buffers) -> Attrs:
    # keepdims is not needed either: it only changes the shape of the result.
    rank = len(inputs[0].shape)
    axes = range(rank) if attrs.axis is None else [a % rank for a in ints(attrs.axis)]
    return {"axes": tuple(sorted(axes))}


def transpose(attrs: Any, inputs: Buffers, outputs: Buffers) -> Attrs:
    rank = len(inputs[0].shape)
    if attrs.axes is None or len(attrs.axes) == 0:
        return {"axes": tuple(reversed(range(rank)))}
    return {"axes": tuple(a % rank for a in ints(attrs.axes))}


def strided_slice(
    data: Buffer,
    result: Buffer,
    axes: Sequence[int],
    begins: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int],
) -> Attrs:
    """Returns begin and stride for each axis. Python's slices limit bounds to the axis as TVM does."""
    if not len(axes) == len(begins) == len(ends) == len(steps) or min(steps, default=1) <= 0:
        raise Unsupported
    first, by, counts = [0] * len(data.shape), [1] * len(data.shape), list(data.shape)
    for where, begin, end, step in zip(axes, begins, ends, steps):
        taken = range(known(data.shape[where]))[begin:end:step]
        first[where], by[where], counts[where] = taken.start, step, len(taken)
    if tuple(counts) != result.shape:  # an unknown slicing mode
        raise Unsupported
    return {"begin": tuple(first), "strides": tuple(by)}


def _four(padding: Any) -> Tuple[int, ...]:
    """Returns the padding as (top, left, bottom, right); TVM's attribute has one, two or four values."""
    pads = ints(padding)
    return pads * (4 // len(pads))


def _layout(attrs: Any, layout: str) -> str:
    if str(attrs.out_layout) not in ("", layout):
        raise Unsupported
    return layout
