"""The table that maps Relay's operators to the kernels of this codegen."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from tvm import relay

from . import adapters
from .adapters import Adapter, Attrs, Buffers, Unsupported, ints
from .subgraph import Buffer, Step


def buffers_of(type_: relay.Type) -> List[Buffer]:
    """Returns a buffer for each tensor of a type; an empty list if a shape is dynamic."""
    if isinstance(type_, relay.TupleType):
        fields = [buffers_of(field) for field in type_.fields]
        return [buffer for field in fields for buffer in field] if all(fields) else []
    try:
        return [Buffer([int(extent) for extent in type_.shape], type_.dtype)]
    except TypeError:  # an extent is Any
        return []


def step_of(call: relay.Call, inputs: Sequence[Optional[Buffer]]) -> Optional[Step]:
    """Returns the call as a step, or None if it cannot be translated."""
    outputs = buffers_of(call.checked_type)
    operands = [buffer for buffer in inputs if buffer is not None]
    if call.op.name not in OPERATORS or not outputs or not operands or None in inputs:
        return None
    kernel, adapter = OPERATORS[call.op.name]
    try:
        return Step(kernel, tuple(operands), tuple(outputs), adapter(call.attrs, operands, outputs))
    except Unsupported:
        return None


def _dense(attrs: Any, inputs: Buffers, outputs: Buffers) -> Attrs:
    return {"transpose_a": False, "transpose_b": True}


def _batch_matmul(attrs: Any, inputs: Buffers, outputs: Buffers) -> Attrs:
    return {"transpose_a": bool(attrs.transpose_a), "transpose_b": bool(attrs.transpose_b)}


def _reduce(attrs: Any, inputs: Buffers, outputs: Buffers) -> Attrs:
    axes = adapters.reduce(attrs, inputs, outputs)["axes"]
    if attrs.exclude:
        axes = tuple(axis for axis in range(len(inputs[0].shape)) if axis not in axes)
    return {"axes": axes}


def _strided_slice(attrs: Any, inputs: Buffers, outputs: Buffers) -> Attrs:
    if str(attrs.slice_mode) != "end" or attrs.begin is None or attrs.end is None:
        raise Unsupported
    begins, ends = ints(attrs.begin), ints(attrs.end)
    axes = range(len(begins)) if attrs.axes is None else ints(attrs.axes)
    steps = ints(attrs.strides or (1,))
    if len(steps) == 1:  # one stride for all axes
        steps *= len(begins)
    return adapters.strided_slice(inputs[0], outputs[0], axes, begins, ends, steps)


OPERATORS: Dict[str, Tuple[str, Adapter]] = {
    "add": ("add", adapters.none),
    "subtract": ("subtract", adapters.none),
    "multiply": ("multiply", adapters.none),
    "divide": ("divide", adapters.none),
    "maximum": ("maximum", adapters.none),
    "nn.relu": ("relu", adapters.none),
    "nn.leaky_relu": ("leaky_relu", lambda attrs, *_: {"alpha": float(attrs.alpha)}),
    "clip": ("clip", lambda attrs, *_: {"min": float(attrs.a_min), "max": float(attrs.a_max)}),
    "sigmoid": ("sigmoid", adapters.none),
    "tanh": ("tanh", adapters.none),
    "exp": ("exp", adapters.none),
    "sqrt": ("sqrt", adapters.none),
    "abs": ("abs", adapters.none),
    "negative": ("negative", adapters.none),
    "nn.conv2d": ("conv2d", adapters.conv2d),
    "nn.dense": ("matmul", _dense),
    "nn.batch_matmul": ("matmul", _batch_matmul),
    "nn.bias_add": ("bias_add", adapters.axis),
    "nn.max_pool2d": ("max_pool2d", adapters.pool2d),
    "nn.avg_pool2d": ("avg_pool2d", adapters.avg_pool2d),
    "nn.global_avg_pool2d": ("mean", adapters.global_pool2d),
    "nn.softmax": ("softmax", adapters.axis),
    "sum": ("sum", _reduce),
    "mean": ("mean", _reduce),
    "max": ("max", _reduce),
    "reshape": ("reshape", adapters.none),
    "squeeze": ("reshape", adapters.none),
    "transpose": ("transpose", adapters.transpose),
    "concatenate": ("concatenate", adapters.axis),
    "split": ("split", adapters.axis),
    "strided_slice": ("strided_slice", _strided_slice),
}
