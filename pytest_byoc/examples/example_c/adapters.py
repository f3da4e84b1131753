"""From the attributes of a TVM operator to those of a kernel: what Relay and Relax have in common.

An adapter gets a TVM attribute object and the operands and results of the call, and returns plain
Python values with the defaults filled in and negative axes counted from the front. It raises
``Unsupported`` where the attributes mean something that no kernel does.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Sequence, Tuple

from .subgraph import Buffer

Attrs = Dict[str, Any]
Buffers = Sequence[Buffer]
Adapter = Callable[[Any, Buffers, Buffers], Attrs]


class Unsupported(Exception):
    """The call has no translation."""


def ints(values: Any) -> Tuple[int, ...]:
    """TVM's arrays of integers as a tuple."""
    return tuple(int(value) for value in values)


def none(attrs: Any, inputs: Buffers, outputs: Buffers) -> Attrs:
    """No attributes, or none that the shapes do not tell already."""
    return {}


def axis(attrs: Any, inputs: Buffers, outputs: Buffers) -> Attrs:
    """bias_add, softmax, concatenate, split."""
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
    # ceil_mode shows in the shape of the result, and nowhere else.
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
    # keepdims, too, shows in the shape of the result alone.
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
    """A slice in terms of Python's own, whose rules for out-of-range bounds are TVM's too."""
    if not len(axes) == len(begins) == len(ends) == len(steps) or min(steps, default=1) <= 0:
        raise Unsupported
    first, by, counts = [0] * len(data.shape), [1] * len(data.shape), list(data.shape)
    for where, begin, end, step in zip(axes, begins, ends, steps):
        taken = range(data.shape[where])[begin:end:step]
        first[where], by[where], counts[where] = taken.start, step, len(taken)
    if tuple(counts) != result.shape:  # a mode of slicing that we do not know
        raise Unsupported
    return {"begin": tuple(first), "strides": tuple(by)}


def _four(padding: Any) -> Tuple[int, ...]:
    """Top, left, bottom, right; TVM allows to give two of them, or one."""
    pads = ints(padding)
    return pads * (4 // len(pads))


def _layout(attrs: Any, layout: str) -> str:
    if str(attrs.out_layout) not in ("", layout):
        raise Unsupported
    return layout
