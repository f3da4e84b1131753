"""What this codegen offloads, and what it becomes: TVM's operators as layers of OpenVINO.

Partitioner and code generator ask the same function, `layers_of`: where it returns None, nothing is
offloaded. So the generator never has to refuse what was promised to it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from .net import Net, Tensor, Type, constant

Tensors = Sequence[Tensor]


def layers_of(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    """Appends the layers of a call, named as in Relay, and returns its result; None if it stays with TVM."""
    if name not in OPERATORS or not inputs or any(0 in type_.shape for type_ in (*_types(inputs), result)):
        return None
    dtypes = [type_.dtype for type_ in (*_types(inputs), result)]
    expected = ["bool" if mark == "b" else "float32" for mark in _DTYPES.get(name, "f" * len(dtypes))]
    if dtypes != expected:
        return None
    return OPERATORS[name](net, name, attrs, inputs, result)


def _types(tensors: Tensors) -> List[Type]:
    return [tensor.type for tensor in tensors]


def ints(values: Any) -> List[int]:
    return [int(value) for value in values]


def _reshaped(net: Net, tensor: Tensor, shape: Sequence[Any]) -> Tensor:
    """The tensor with another closed shape."""
    if tuple(shape) == tensor.shape:
        return tensor
    if tensor.data is not None:
        return constant(tensor.data.reshape(shape))
    sources = [tensor, net.integers(list(shape))]
    return net.add("Reshape", sources, Type(tuple(shape), tensor.type.dtype), special_zero=False)


def _permuted(net: Net, tensor: Tensor, axes: Sequence[int]) -> Tensor:
    if list(axes) == list(range(len(axes))):
        return tensor
    if tensor.data is not None:
        return constant(np.ascontiguousarray(tensor.data.transpose(axes)))
    type_ = Type(tuple(tensor.shape[axis] for axis in axes), tensor.type.dtype)
    return net.add("Transpose", [tensor, net.integers(axes)], type_)


def _arranged(net: Net, tensor: Tensor, layout: str, wanted: str) -> Tensor:
    return _permuted(net, tensor, [layout.index(letter) for letter in wanted])


def _spatial(layout: str) -> str:
    """The spatial axes of a layout such as NHWC or OIHW; "" for those that are not understood."""
    letters = "".join(letter for letter in layout if letter not in "NCOI")
    return letters if letters in ("W", "HW", "DHW") and len(layout) == len(letters) + 2 else ""


def _pads(attrs: Any, count: int) -> List[int]:
    """The padding as those before and those after; TVM has one for all, one for each axis, or all."""
    pads = ints(attrs.padding)
    return pads * (2 * count // len(pads))


# ---- convolutions, products, pooling -----------------------------------------------------------


def _convolution(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    layout, kernel, groups = str(attrs.data_layout), str(attrs.kernel_layout), int(attrs.groups)
    space = _spatial(layout)
    if not space or _spatial(kernel) != space or str(attrs.out_layout) not in ("", layout):
        return None
    data = _arranged(net, inputs[0], layout, f"NC{space}")
    weight = _arranged(net, inputs[1], kernel, f"OI{space}")
    if not isinstance(data.shape[1], int) or not weight.type.is_closed:
        return None
    outputs, share = weight.shape[:2]
    if share * groups != data.shape[1] or outputs % groups:
        return None
    pads, strides = _pads(attrs, len(space)), ints(attrs.strides)
    if set(weight.shape[2:]) == {1} and max(strides) > 1 and max(pads) > 0:
        return None  # OpenVINO gives these strides to a convolution before it, as if there were no padding
    if groups > 1:
        weight = _reshaped(net, weight, (groups, outputs // groups, *weight.shape[1:]))
    shape = tuple(result.shape[layout.index(letter)] for letter in f"NC{space}")
    convolved = net.add(
        "GroupConvolution" if groups > 1 else "Convolution", [data, weight], Type(shape, "float32"),
        strides=strides, dilations=ints(attrs.dilation), auto_pad="explicit",
        pads_begin=pads[: len(space)], pads_end=pads[len(space) :],
    )  # fmt: skip
    return _arranged(net, convolved, f"NC{space}", layout)


def _matmul(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    is_dense = name == "nn.dense"
    if min(len(tensor.shape) for tensor in inputs) < 2:
        return None
    a = not is_dense and bool(getattr(attrs, "transpose_a", False))
    b = is_dense or bool(getattr(attrs, "transpose_b", False))
    return net.add("MatMul", inputs, result, transpose_a=a, transpose_b=b)


def _pooling(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    layout, is_average = str(attrs.layout), "avg" in name
    space = _spatial(layout)
    if not space or str(attrs.out_layout) not in ("", layout):
        return None
    pads, sizes = _pads(attrs, len(space)), ints(attrs.pool_size)
    strides, dilations = ints(attrs.strides), ints(attrs.dilation)
    includes = is_average and bool(attrs.count_include_pad)
    for i, letter in enumerate(space):
        extent, count = inputs[0].shape[layout.index(letter)], result.shape[layout.index(letter)]
        if sizes[i] == 1:
            dilations[i] = 1
        if is_average and dilations[i] != 1:
            return None
        if not isinstance(extent, int) or not isinstance(count, int):
            if bool(attrs.ceil_mode) or dilations[i] != 1 or max(pads[i], pads[i + len(space)]) >= sizes[i]:
                return None
            continue
        for window in range(count):
            taps = [window * strides[i] - pads[i] + k * dilations[i] for k in range(sizes[i])]
            if not any(0 <= tap < extent for tap in taps):
                return None  # TVM divides 0 by 0 there
            if includes and taps[-1] >= extent + pads[i + len(space)]:
                return None  # TVM does not count what ceil_mode adds, OpenVINO does
        # The padding that ceil_mode asks for is given explicitly.
        pads[i + len(space)] = max(pads[i + len(space)], taps[-1] + 1 - extent)
    shape = tuple(result.shape[layout.index(letter)] for letter in f"NC{space}")
    fields: Dict[str, Any] = {
        "kernel": sizes, "strides": strides, "pads_begin": pads[: len(space)], "rounding_type": "floor",
        "pads_end": pads[len(space) :], "auto_pad": "explicit",
    }  # fmt: skip
    if is_average:
        fields["exclude-pad"] = not includes
    else:
        fields["dilations"] = dilations
    kind, type_ = "AvgPool" if is_average else "MaxPool-8", Type(shape, "float32")
    data = _arranged(net, inputs[0], layout, f"NC{space}")
    pooled = net.add(kind, [data], type_, **fields)
    if not is_average:
        # Of a window of -inf OpenVINO's maximum is the least finite number. `numbers` is 0 for -inf.
        infinite = Type(data.shape, "bool")
        infinities = net.add("IsInf-10", [data], infinite, detect_positive=False, detect_negative=True)
        numbers = net.add("Select", [infinities, net.number(0), net.number(1)], data.type)
        has_number = net.add("Greater", [net.add(kind, [numbers], type_, **fields), net.number(0)],
                             Type(shape, "bool"))  # fmt: skip
        pooled = net.add("Select", [has_number, pooled, net.number(-np.inf)], type_)
    return _arranged(net, pooled, f"NC{space}", layout)


def _global_pooling(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    layout = str(attrs.layout)
    axes = [i for i, letter in enumerate(layout) if letter in "DHW"]
    if len(layout) != len(inputs[0].shape) or len(axes) != len(layout) - 2:
        return None
    if "adaptive" in name and any(result.shape[axis] != 1 for axis in axes):
        return None
    return _reduced(net, "mean" if "avg" in name else "max", inputs[0], axes, result, True)


# ---- normalisations, reductions ----------------------------------------------------------------


def _softmax(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    if not result.shape:
        return None
    axis, x = int(attrs.axis) % len(result.shape), inputs[0]
    kind = "LogSoftmax-5" if name == "nn.log_softmax" else "SoftMax"
    normed = net.add(kind, inputs, result, axis=axis)
    # A row that holds NaN or +inf is NaN. OpenVINO's exp has numbers for them.
    each = Type(result.shape, "bool")
    infinite = net.add("IsInf-10", [x], each, detect_negative=False, detect_positive=True)
    special = net.add("LogicalOr", [net.add("IsNaN-10", [x], each), infinite], each)
    row = Type(tuple(1 if i == axis else extent for i, extent in enumerate(result.shape)), "bool")
    rows = net.add("ReduceLogicalOr", [special, net.integers([axis])], row, keep_dims=True)
    return net.add("Select", [rows, net.number(np.nan), normed], result)


def _batch_norm(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    data, gamma, beta, mean, variance = inputs
    rank = len(result.shape)
    if getattr(attrs, "training", False) or not all(type_.is_closed for type_ in _types(inputs[1:])):
        return None  # where it trains, the statistics are those of the batch
    axis = int(attrs.axis) % rank
    shape = (*gamma.shape, *[1] * (rank - 1 - axis))
    gamma, beta, mean, variance = (_reshaped(net, tensor, shape) for tensor in (gamma, beta, mean, variance))
    channels = Type(shape, "float32")
    deviation = net.add("Sqrt", [net.add("Add", [variance, net.number(attrs.epsilon)], channels)], channels)
    normed = net.add("Divide", [net.add("Subtract", [data, mean], result), deviation], result)
    if attrs.scale:
        normed = net.add("Multiply", [normed, gamma], result)
    return net.add("Add", [normed, beta], result) if attrs.center else normed


def _layer_norm(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    rank = len(result.shape)
    axes = [int(axis) % rank for axis in ([attrs.axis] if hasattr(attrs, "axis") else attrs.axes)]
    if axes != sorted(axes) or not all(type_.is_closed for type_ in _types(inputs[1:])):
        return None
    shape = [result.shape[axis] if axis in axes else 1 for axis in range(rank)]
    gamma, beta = (_reshaped(net, tensor, shape) for tensor in inputs[1:])
    fields = {"normalize_variance": True, "eps": float(attrs.epsilon), "eps_mode": "inside_sqrt"}
    normed = net.add("MVN-6", [inputs[0], net.integers(axes)], result, **fields)
    if attrs.scale:
        normed = net.add("Multiply", [normed, gamma], result)
    return net.add("Add", [normed, beta], result) if attrs.center else normed


def _reduction(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    rank = len(inputs[0].shape)
    given = getattr(attrs, "axis", None)
    axes = list(range(rank)) if given is None else ints(given if hasattr(given, "__len__") else [given])
    axes = [axis % rank for axis in axes]
    if getattr(attrs, "exclude", False):
        axes = [axis for axis in range(rank) if axis not in axes]
    if not axes:
        return None
    return _reduced(net, name, inputs[0], sorted(axes), result, bool(attrs.keepdims))


def _reduced(
    net: Net, name: str, data: Tensor, axes: Sequence[int], result: Type, keep_dims: bool
) -> Tensor:
    kept = Type(tuple(1 if i in axes else extent for i, extent in enumerate(data.shape)), "float32")
    sources = [data, net.integers(axes)]
    reduced = net.add(f"Reduce{name.capitalize()}", sources, kept, keep_dims=True)
    if name in ("max", "min"):
        # Of infinities alone OpenVINO's maximum is the least finite number, and its minimum the largest.
        each, bools = Type(data.shape, "bool"), Type(kept.shape, "bool")
        infinite = net.add("IsInf-10", [data], each, detect_negative=name == "max",
                           detect_positive=name == "min")  # fmt: skip
        alone = net.add("ReduceLogicalAnd", [infinite, sources[1]], bools, keep_dims=True)
        limit = net.number(-np.inf if name == "max" else np.inf)
        reduced = net.add("Select", [alone, limit, reduced], kept)
    # Without keep_dims OpenVINO mixes up the axes of one element, where a transposition comes before.
    return reduced if keep_dims else net.add("Squeeze", [reduced, sources[1]], result)


# ---- elementwise operators ---------------------------------------------------------------------


def _unary(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    return net.add(_UNARY[name], inputs, result)


def _binary(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    if name.startswith("greater"):  # OpenVINO's is true where one of both is NaN
        name, inputs = name.replace("greater", "less"), inputs[::-1]
    return net.add(_BINARY[name], inputs, result, auto_broadcast="numpy")


def _bias_add(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    data, bias = inputs
    rank = len(result.shape)
    axis = int(attrs.axis) % rank
    if not bias.type.is_closed:
        return None
    bias = _reshaped(net, bias, [*bias.shape, *[1] * (rank - 1 - axis)])
    return net.add("Add", [data, bias], result)


def _clip(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    return net.add("Clamp", inputs, result, min=float(attrs.a_min), max=float(attrs.a_max))


def _leaky_relu(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    return net.add("PReLU", [inputs[0], net.number(attrs.alpha)], result)


# ---- shapes ------------------------------------------------------------------------------------


def _reshape(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    """Open extents are taken from the operand's shape when the model runs; one may be what is left (-1)."""
    before, after = list(inputs[0].shape), result.shape
    if not before and not after:
        return None
    values = [extent if isinstance(extent, int) or extent in before else -1 for extent in after]
    if values.count(-1) > 1:
        return None
    if all(isinstance(value, int) for value in values):
        shape = net.integers(values)
    else:
        # The result's extents are picked from the operand's and the known ones, laid side by side.
        indices = [len(before) + i if isinstance(v, int) else before.index(v) for i, v in enumerate(values)]
        known = net.integers([value if isinstance(value, int) else 0 for value in values])
        extents = net.add("ShapeOf-3", inputs, Type((len(before),), "int64"), output_type="i64")
        both = net.add("Concat", [extents, known], Type((len(before) + len(values),), "int64"), axis=0)
        sources = [both, net.integers(indices), net.integers([0])]
        shape = net.add("Gather-8", sources, Type((len(values),), "int64"), batch_dims=0)
    return net.add("Reshape", [inputs[0], shape], result, special_zero=False)


def _transpose(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    rank = len(result.shape)
    axes = getattr(attrs, "axes", None)
    order = ints(axes) if axes is not None and len(axes) else list(range(rank))[::-1]
    return net.add("Transpose", [inputs[0], net.integers([axis % rank for axis in order])], result)


def _concatenate(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    if attrs.axis is None or not result.shape:
        return None
    return net.add("Concat", inputs, result, axis=int(attrs.axis) % len(result.shape))


def _broadcast(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    if not result.is_closed or not result.shape:
        return None
    return net.add("Broadcast-3", [inputs[0], net.integers(result.shape)], result, mode="numpy")


def _strided_slice(net: Net, name: str, attrs: Any, inputs: Tensors, result: Type) -> Optional[Tensor]:
    """With begin, end and strides brought into Python's range, as TVM's type rule does."""
    shape, rank = inputs[0].shape, len(result.shape)
    axes = [axis % rank for axis in (range(len(attrs.begin)) if attrs.axes is None else ints(attrs.axes))]
    strides = ints(attrs.strides) * (len(axes) if len(attrs.strides) == 1 else 1)
    if getattr(attrs, "slice_mode", "end") != "end" or not len(strides) == len(axes) == len(set(axes)) > 0:
        return None
    begins, ends = [], []
    for axis, begin, end, stride in zip(axes, ints(attrs.begin), ints(attrs.end), strides):
        if not isinstance(shape[axis], int):
            return None
        first, last, _ = slice(begin, end, stride).indices(shape[axis])
        if len(range(first, last, stride)) != result.shape[axis]:
            return None
        begins.append(first)
        ends.append(last if last >= 0 else -shape[axis] - 1)  # -1 would be the last element
    sources = [net.integers(values) for values in (begins, ends, strides, axes)]
    return net.add("Slice-8", [inputs[0], *sources], result)


_BINARY = {
    "add": "Add", "subtract": "Subtract", "multiply": "Multiply", "divide": "Divide", "maximum": "Maximum",
    "minimum": "Minimum", "equal": "Equal", "not_equal": "NotEqual", "less": "Less",
    "less_equal": "LessEqual", "greater": "Less", "greater_equal": "LessEqual",
    "logical_and": "LogicalAnd", "logical_or": "LogicalOr", "logical_xor": "LogicalXor", "where": "Select",
}  # fmt: skip
_UNARY = {
    "nn.relu": "ReLU", "sigmoid": "Sigmoid", "tanh": "Tanh", "log": "Log", "sqrt": "Sqrt",
    "abs": "Abs", "negative": "Negative", "floor": "Floor", "ceil": "Ceiling", "sign": "Sign",
    "nn.silu": "Swish-4", "logical_not": "LogicalNot",
}  # fmt: skip
#: The dtypes of inputs and result where not all are float32.
_DTYPES = {
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), "ffb"),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), "bbb"),
    "logical_not": "bb", "where": "bfff",
}  # fmt: skip
_POOLS = [f"nn.{kind}_pool{n}d" for kind in ("max", "avg") for n in (1, 2, 3)]
_GLOBAL_POOLS = ["nn.global_avg_pool2d", "nn.global_max_pool2d", "nn.adaptive_avg_pool2d"]
OPERATORS: Dict[str, Callable[[Net, str, Any, Tensors, Type], Optional[Tensor]]] = {
    "nn.conv1d": _convolution, "nn.conv2d": _convolution, "nn.conv3d": _convolution,
    "nn.dense": _matmul, "nn.matmul": _matmul, "nn.batch_matmul": _matmul, "matmul": _matmul,
    **dict.fromkeys(_POOLS, _pooling), **dict.fromkeys(_GLOBAL_POOLS, _global_pooling),
    "nn.softmax": _softmax, "nn.log_softmax": _softmax,
    "nn.batch_norm": _batch_norm, "nn.layer_norm": _layer_norm,
    **dict.fromkeys(("sum", "mean", "max", "min", "prod"), _reduction),
    **dict.fromkeys(_BINARY, _binary), **dict.fromkeys(_UNARY, _unary),
    "nn.bias_add": _bias_add, "clip": _clip, "nn.leaky_relu": _leaky_relu,
    **dict.fromkeys(("reshape", "squeeze", "expand_dims", "nn.batch_flatten"), _reshape),
    "transpose": _transpose, "concatenate": _concatenate, "broadcast_to": _broadcast,
    "strided_slice": _strided_slice,
}  # fmt: skip
