"""The table that maps Relax's operators to the kernels of this codegen."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from tvm import relax

from . import adapters
from .adapters import Adapter, Attrs, Buffers, Unsupported
from .relax_extents import Lengths, length_of
from .subgraph import Buffer, Step


class Operator(NamedTuple):
    """The translation of one Relax operator: its kernel, and a function for its attributes."""

    kernel: str
    attrs: Callable[[relax.Call, Buffers, Buffers], Attrs]
    # `tensors` is the number of leading arguments that are tensors, `arguments` the possible numbers
    # of all arguments: Relax passes some of Relay's attributes as arguments.
    tensors: int = 1
    arguments: Tuple[int, ...] = (1,)


def type_of(expr: relax.Expr) -> Any:
    """Returns the type of an expression; up to TVM 0.25 it is called struct_info."""
    return expr.ty if hasattr(expr, "ty") else expr.struct_info


def buffers_of(type_: Any, lengths: Optional[Lengths] = None) -> List[Buffer]:
    """Returns a buffer for each tensor of a type; an empty list if a shape is unknown.

    ``lengths``: the lengths of variables, as of :func:`~.relax_extents.length_of`.
    """
    if hasattr(type_, "fields"):
        fields = [buffers_of(field, lengths) for field in type_.fields]
        return [buffer for field in fields for buffer in field] if all(fields) else []
    shape = getattr(type_, "shape", None)
    if shape is None:
        return []
    try:
        return [Buffer([int(extent) for extent in shape], str(type_.dtype))]
    except TypeError:  # an extent is open, or the whole shape is a variable
        return open_buffers(shape, str(type_.dtype), lengths)


def open_buffers(shape: Any, dtype: str, lengths: Optional[Lengths]) -> List[Buffer]:
    """Returns the buffer of a tensor with open extents; none if an extent cannot be calculated."""
    try:
        return [Buffer([length_of(extent, lengths) for extent in shape], dtype)]
    except TypeError:
        return []


def tensor_arguments(call: relax.Call) -> Sequence[relax.Expr]:
    """Returns the arguments that are tensors or tuples of tensors."""
    return list(call.args)[: OPERATORS[call.op.name].tensors]


def step_of(
    call: relax.Call, inputs: Sequence[Optional[Buffer]], lengths: Optional[Lengths] = None
) -> Optional[Step]:
    """Returns the call as a step, or None if it cannot be translated."""
    outputs = buffers_of(type_of(call), lengths)
    operands = [buffer for buffer in inputs if buffer is not None]
    if call.op.name not in OPERATORS or not outputs or not operands or None in inputs:
        return None
    operator = OPERATORS[call.op.name]
    try:
        attrs = operator.attrs(call, operands, outputs)
    except Unsupported:
        return None
    return Step(operator.kernel, tuple(operands), tuple(outputs), attrs)


def _with(adapter: Adapter) -> Callable[[relax.Call, Buffers, Buffers], Attrs]:
    return lambda call, inputs, outputs: adapter(call.attrs, inputs, outputs)


def _number(expr: Any) -> Any:
    """Returns the number of an immediate argument; up to TVM 0.25 it is wrapped in a PrimValue."""
    value = getattr(expr, "value", None)
    value = getattr(value, "value", value)
    if not isinstance(value, (int, float)):
        raise Unsupported
    return value


def _numbers(expr: Any) -> List[Any]:
    if not isinstance(expr, relax.Tuple):
        raise Unsupported
    return [_number(field) for field in expr.fields]


def _clip(call: relax.Call, inputs: Buffers, outputs: Buffers) -> Attrs:
    return {"min": float(_number(call.args[1])), "max": float(_number(call.args[2]))}


def _matmul(call: relax.Call, inputs: Buffers, outputs: Buffers) -> Attrs:
    return {"transpose_a": False, "transpose_b": False}


def _adaptive_pool2d(call: relax.Call, inputs: Buffers, outputs: Buffers) -> Attrs:
    attrs = adapters.global_pool2d(call.attrs, inputs, outputs)
    if any(outputs[0].shape[axis] != 1 for axis in attrs["axes"]):
        raise Unsupported
    return attrs


def _strided_slice(call: relax.Call, inputs: Buffers, outputs: Buffers) -> Attrs:
    axes, begins, ends = (_numbers(arg) for arg in list(call.args)[1:4])
    steps = _numbers(call.args[4]) if len(call.args) == 5 else [1] * len(axes)
    return adapters.strided_slice(inputs[0], outputs[0], axes, begins, ends, steps)


_NONE = _with(adapters.none)
_REDUCE = _with(adapters.reduce)

OPERATORS: Dict[str, Operator] = {
    "relax.add": Operator("add", _NONE, 2, (2,)),
    "relax.subtract": Operator("subtract", _NONE, 2, (2,)),
    "relax.multiply": Operator("multiply", _NONE, 2, (2,)),
    "relax.divide": Operator("divide", _NONE, 2, (2,)),
    "relax.maximum": Operator("maximum", _NONE, 2, (2,)),
    "relax.nn.relu": Operator("relu", _NONE),
    "relax.nn.leakyrelu": Operator(
        "leaky_relu", lambda call, *_: {"alpha": float(call.attrs.alpha)}
    ),
    "relax.clip": Operator("clip", _clip, 1, (3,)),
    "relax.sigmoid": Operator("sigmoid", _NONE),
    "relax.tanh": Operator("tanh", _NONE),
    "relax.exp": Operator("exp", _NONE),
    "relax.sqrt": Operator("sqrt", _NONE),
    "relax.abs": Operator("abs", _NONE),
    "relax.negative": Operator("negative", _NONE),
    "relax.nn.conv2d": Operator("conv2d", _with(adapters.conv2d), 2, (2,)),
    "relax.matmul": Operator("matmul", _matmul, 2, (2,)),
    "relax.nn.max_pool2d": Operator("max_pool2d", _with(adapters.pool2d)),
    "relax.nn.avg_pool2d": Operator("avg_pool2d", _with(adapters.avg_pool2d)),
    "relax.nn.adaptive_avg_pool2d": Operator("mean", _adaptive_pool2d),
    "relax.nn.softmax": Operator("softmax", _with(adapters.axis)),
    "relax.sum": Operator("sum", _REDUCE),
    "relax.mean": Operator("mean", _REDUCE),
    "relax.max": Operator("max", _REDUCE),
    "relax.reshape": Operator("reshape", _NONE, 1, (2,)),
    "relax.squeeze": Operator("reshape", _NONE),
    "relax.permute_dims": Operator("transpose", _with(adapters.transpose)),
    "relax.concat": Operator("concatenate", _with(adapters.axis)),
    "relax.split": Operator("split", _with(adapters.axis)),
    "relax.strided_slice": Operator("strided_slice", _strided_slice, 1, (4, 5)),
}
