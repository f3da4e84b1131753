"""What this codegen offloads, and what it becomes: TVM's operators as nodes of ONNX. Knows neither IR.

Partitioner and code generator ask the same function, `translate`: where it raises `Unsupported`, nothing is
offloaded. So the generator never has to refuse what was promised to it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from .model import Model, Tensor, Unsupported


class Call(NamedTuple):
    """The call of a TVM operator. others: its arguments that are no tensors, as numbers or lists of them."""

    name: str
    attrs: Any
    inputs: Sequence[Tensor]
    results: Sequence[Tensor]
    others: Sequence[Any] = ()

    @property
    def result(self) -> Tensor:
        return self.results[0]

    @property
    def rank(self) -> int:
        return len(self.inputs[0].shape)

    def attr(self, *names: str, default: Any = None) -> Any:
        """The first attribute that the operator has: the names may differ between the IRs."""
        return next((getattr(self.attrs, name) for name in names if hasattr(self.attrs, name)), default)

    def axes(self, *names: str) -> List[int]:
        """The axes that an attribute names, from 0 on; all where it names none."""
        value = self.attr(*(names or ("axis", "axes")))
        if value is None:
            return list(range(self.rank))
        return [int(axis) % self.rank for axis in (value if hasattr(value, "__len__") else [value])]

    def ints(self, name: str) -> List[int]:
        return [int(value) for value in getattr(self.attrs, name)]


def translate(model: Model, call: Call) -> List[Tensor]:
    """Adds the nodes that compute a call, returns its results. Raises `Unsupported` if it stays with TVM."""
    if call.name not in OPERATORS or not call.inputs:
        raise Unsupported
    function, native, widened = OPERATORS[call.name]
    # Without elements, ONNX Runtime 1.23 leaves a product unset, raises in maxima, and ends the process in
    # transposed convolutions.
    if any(t.dtype not in ALL or 0 in t.shape for t in (*call.inputs, *call.results)):
        raise Unsupported
    # The first operand of `where` is its condition.
    dtype = call.inputs[1 if call.name == "where" else 0].dtype

    def widen(tensors: Sequence[Tensor]) -> List[Tensor]:
        return [t._replace(dtype="int32") if t.dtype == dtype else t for t in tensors]

    if dtype in widened:
        # ONNX Runtime has no kernel for it. int32 holds all of its values, and sums and products modulo 2**32
        # are those modulo 2**8 or 2**16 when they are cast back.
        cast = [t._replace(name=model.cast(t, "int32")) if t.dtype == dtype else t for t in call.inputs]
        values = _list(function(model, call._replace(inputs=widen(cast), results=widen(call.results))))
        values = [model.cast(v, dtype) if t.dtype == dtype else v for v, t in zip(values, call.results)]
    elif dtype in native:
        values = _list(function(model, call))
    else:
        raise Unsupported
    return [t._replace(name=getattr(value, "name", value)) for value, t in zip(values, call.results)]


def _list(value: Any) -> List[Any]:
    return value if isinstance(value, list) else [value]


_Function = Callable[[Model, Call], Any]


# ---- arithmetic --------------------------------------------------------------------------------


def _as(operator: str, **attrs: Any) -> _Function:
    """What the node with this name computes."""
    return lambda m, call: m.node(operator, *call.inputs, **attrs)


def _isfinite(m: Model, call: Call) -> Any:
    return m.node("Not", m.node("Or", m.node("IsNaN", *call.inputs), m.node("IsInf", *call.inputs)))


def _not(operator: str) -> _Function:
    return lambda m, call: m.node("Not", m.node(operator, *call.inputs))


def _number(call: Call, value: Any) -> Any:
    return np.asarray(float(value), call.result.dtype)


def _clip(m: Model, call: Call) -> Any:
    lower, upper = call.others or (call.attrs.a_min, call.attrs.a_max)
    return m.node("Clip", call.inputs[0], _number(call, lower), _number(call, upper))


def _leaky_relu(m: Model, call: Call) -> Any:
    return m.node("LeakyRelu", *call.inputs, alpha=float(call.attrs.alpha))


def _prelu(m: Model, call: Call) -> Any:
    # In ONNX Runtime 1.23, PRelu multiplies 0 by a slope that may be infinite.
    data, slope = call.inputs[0], _channels(m, call)
    return m.node("Where", m.node("Less", data, _number(call, 0)), m.node("Mul", data, slope), data)


def _channels(m: Model, call: Call) -> Any:
    """The second operand, one value for each channel, in a shape that is broadcast."""
    (axis,) = call.axes("axis")
    return m.node("Reshape", call.inputs[1], [-1, *[1] * (call.rank - axis - 1)])


def _sigmoid(m: Model, call: Call) -> Any:
    # Sigmoid is off by 3,700 units in the last place at -8, and 0 from -18 on downwards.
    return m.node("Reciprocal", m.node("Add", m.node("Exp", m.node("Neg", *call.inputs)), _number(call, 1)))


def _erf(m: Model, call: Call) -> Any:
    # In ONNX Runtime 1.23, Erf of NaN is 1.
    return m.node("Where", m.node("IsNaN", *call.inputs), *call.inputs, m.node("Erf", *call.inputs))


def _softplus(m: Model, call: Call) -> Any:
    if call.attrs.beta != 1 or call.attrs.threshold < 20:
        raise Unsupported
    return m.node("Softplus", *call.inputs)


def _where(m: Model, call: Call) -> Any:
    return m.node("Where", m.cast(call.inputs[0], "bool"), *call.inputs[1:])


# ---- products, convolutions, pooling -----------------------------------------------------------


def _matmul(m: Model, call: Call) -> Any:
    dtype = call.result.dtype
    if dtype not in ("float16", "float32", "float64", "int32", "int64"):
        raise Unsupported
    values = []
    for i, value in enumerate(call.inputs):
        # The weights of dense have a row for each output.
        is_swapped = call.attr(("transpose_a", "transpose_b")[i], default=i == 1 and call.name == "nn.dense")
        rank = len(value.shape)
        operand: Any = value if value.dtype == dtype else m.cast(value, dtype)
        if is_swapped:
            operand = m.node("Transpose", operand, perm=[*range(rank - 2), rank - 1, rank - 2])
        values.append(operand)
    return m.node("MatMul", *values)


def _spatial(layout: str) -> str:
    return "".join(letter for letter in layout if letter in "DHW")


def _layouts(call: Call) -> Tuple[str, str]:
    """The layout of data and result, and ONNX's."""
    layout = str(call.attr("data_layout", "layout"))
    if str(call.attrs.out_layout) not in ("", layout):
        raise Unsupported
    return layout, "NC" + _spatial(layout)


def _pads(call: Call, count: int) -> List[int]:
    """The padding of `count` axes: all beginnings, then all ends."""
    padding = call.ints("padding")
    return padding * (2 * count // len(padding))


def _convolution(m: Model, call: Call) -> Any:
    (layout, wanted), (data, weight), attrs = _layouts(call), call.inputs, call.attrs
    is_transposed, kernel, groups = "transpose" in call.name, str(attrs.kernel_layout), int(attrs.groups)
    sizes, channels = dict(zip(kernel, weight.shape)), data.shape[layout.index("C")]
    ways = "IO" if is_transposed else "OI"
    if any(tensor.dtype != call.result.dtype for tensor in call.inputs):
        raise Unsupported
    if sizes.get("I", 0) * (1 if is_transposed else groups) != channels:
        raise Unsupported  # a layout of depthwise weights that names another axis O
    values = [m.arrange(data, layout, wanted), m.arrange(weight, kernel, ways + wanted[2:])]
    fields: Dict[str, Any] = {"output_padding": call.ints("output_padding")} if is_transposed else {}
    result = m.node(
        "ConvTranspose" if is_transposed else "Conv", *values, group=groups, strides=call.ints("strides"),
        dilations=call.ints("dilation"), pads=_pads(call, len(wanted) - 2), **fields,
    )  # fmt: skip
    return m.arrange(result, wanted, layout)


def _pool(m: Model, call: Call) -> Any:
    layout, wanted = _layouts(call)
    count = len(wanted) - 2
    sizes, strides, dilations = (call.ints(name) for name in ("pool_size", "strides", "dilation"))
    pads, is_average = _pads(call, count), "avg" in call.name
    includes = is_average and bool(call.attrs.count_include_pad)
    for i, letter in enumerate(wanted[2:]):
        extent, windows = (t.shape[layout.index(letter)] for t in (call.inputs[0], call.result))
        if not isinstance(extent, int):
            raise Unsupported
        reach = dilations[i] * (sizes[i] - 1) + 1
        begin, end = pads[i], (windows - 1) * strides[i] + reach - pads[i] - extent
        if max(begin, end, pads[count + i]) >= sizes[i] or (includes and end > pads[count + i]):
            # ONNX Runtime refuses as much padding as kernel. TVM does not count what ceil_mode adds.
            raise Unsupported
        # The padding that ceil_mode asks for is given explicitly.
        pads[count + i] = max(pads[count + i], end)
    value = m.arrange(call.inputs[0], layout, wanted)
    if includes and any(pads):  # which AveragePool counts wrongly in ONNX Runtime 1.23
        value, pads = m.node("Pad", value, [0, 0, *pads[:count], 0, 0, *pads[count:]]), [0] * 2 * count
    result = m.node(
        "AveragePool" if is_average else "MaxPool", value,
        kernel_shape=sizes, strides=strides, dilations=dilations, pads=pads,
    )  # fmt: skip
    return m.arrange(result, wanted, layout)


def _global_pool(m: Model, call: Call) -> Any:
    layout, _ = _layouts(call)
    axes = [layout.index(letter) for letter in _spatial(layout)]
    if any(call.result.shape[axis] != 1 for axis in axes) or len(axes) + 2 != len(layout):
        raise Unsupported  # adaptive pooling to more than one element
    return m.node("ReduceMax" if "max" in call.name else "ReduceMean", call.inputs[0], axes, keepdims=1)


# ---- reductions, normalisations ----------------------------------------------------------------


def _reduce(operator: str) -> _Function:
    def function(m: Model, call: Call) -> Any:
        axes = _reduced(call)
        if not axes and call.result.shape != call.inputs[0].shape:
            raise Unsupported
        return m.node(operator, call.inputs[0], axes, keepdims=_keepdims(call)) if axes else call.inputs[0]

    return function


def _keepdims(call: Call) -> int:
    return int(bool(call.attrs.keepdims))


def _reduced(call: Call) -> List[int]:
    axes = call.axes("axis")
    return [axis for axis in range(call.rank) if (axis in axes) != bool(call.attr("exclude", default=False))]


def _arg(operator: str) -> _Function:
    def function(m: Model, call: Call) -> Any:
        axes = _reduced(call)
        if len(axes) != 1:
            raise Unsupported
        last = int(bool(call.attr("select_last_index", default=False)))
        fields = {"axis": axes[0], "keepdims": _keepdims(call), "select_last_index": last}
        value = m.node(operator, call.inputs[0], **fields)
        return value if call.result.dtype == "int64" else m.cast(value, call.result.dtype)

    return function


def _variance(m: Model, call: Call) -> Any:
    if call.attr("unbiased", default=False):
        raise Unsupported
    data, axes = call.inputs[0], _reduced(call)
    mean = call.inputs[1] if len(call.inputs) > 1 else m.node("ReduceMean", data, axes, keepdims=1)
    distance = m.node("Sub", data, mean)
    return m.node("ReduceMean", m.node("Mul", distance, distance), axes, keepdims=_keepdims(call))


def _cumsum(m: Model, call: Call) -> Any:
    if call.attrs.axis is None or call.inputs[0].dtype != call.result.dtype:
        raise Unsupported
    (axis,) = call.axes("axis")
    return m.node("CumSum", call.inputs[0], np.asarray(axis), exclusive=int(bool(call.attrs.exclusive or 0)))


def _softmax(operator: str) -> _Function:
    return lambda m, call: m.node(operator, call.inputs[0], axis=call.axes("axis")[0])


def _batch_norm(m: Model, call: Call) -> Any:
    (axis,) = call.axes("axis")
    if call.attr("training", default=False) or call.rank < 2:
        raise Unsupported
    data, scale, shift, mean, variance = call.inputs
    scale, shift = _scale_and_shift(call, scale, shift)
    letters = "NCDHWXYZ"[: call.rank]
    layout = letters.replace("C", "")
    layout = layout[:axis] + "C" + layout[axis:]
    value = m.arrange(data, layout, letters)
    values, epsilon = (value, scale, shift, mean, variance), float(call.attrs.epsilon)
    value = m.node("BatchNormalization", *values, epsilon=epsilon)
    return [m.arrange(value, letters, layout), mean, variance]


def _scale_and_shift(call: Call, scale: Any, shift: Any) -> Tuple[Any, Any]:
    """Scale and shift of a normalisation, or the constants in place of what it does not use."""
    shape, dtype = scale.shape, scale.dtype
    if not all(isinstance(extent, int) for extent in shape):
        raise Unsupported
    return (
        scale if call.attrs.scale else np.ones(shape, dtype),
        shift if call.attrs.center else np.zeros(shape, dtype),
    )


def _layer_norm(m: Model, call: Call) -> Any:
    # LayerNormalization of 1.23 takes the mean's square from the mean of squares: NaN if the mean is large.
    data, axes = call.inputs[0], call.axes()
    if axes != list(range(axes[0], call.rank)):
        raise Unsupported
    scale, shift = _scale_and_shift(call, *call.inputs[1:])
    distance = m.node("Sub", data, m.node("ReduceMean", data, axes, keepdims=1))
    variance = m.node("ReduceMean", m.node("Mul", distance, distance), axes, keepdims=1)
    root = m.node("Sqrt", m.node("Add", variance, _number(call, call.attrs.epsilon)))
    return m.node("Add", m.node("Mul", m.node("Div", distance, root), scale), shift)


def _rms_norm(m: Model, call: Call) -> Any:
    data, weight = call.inputs
    axes = call.axes()
    if axes != list(range(axes[0], call.rank)):
        raise Unsupported
    mean = m.node("ReduceMean", m.node("Mul", data, data), axes, keepdims=1)
    root = m.node("Sqrt", m.node("Add", mean, _number(call, call.attrs.epsilon)))
    return m.node("Mul", m.node("Div", data, root), weight)


# ---- movement ----------------------------------------------------------------------------------


def _reshape(m: Model, call: Call) -> Any:
    shape = call.others[0] if call.others else m.extents(call.result.shape)
    return m.node("Reshape", call.inputs[0], shape, allowzero=1)


def _transpose(m: Model, call: Call) -> Any:
    axes = call.axes("axes") if call.attrs.axes else list(range(call.rank))[::-1]
    return m.node("Transpose", call.inputs[0], perm=axes) if axes else call.inputs[0]


def _concat(m: Model, call: Call) -> Any:
    if call.attrs.axis is None:
        raise Unsupported
    return m.node("Concat", *call.inputs, axis=call.axes("axis")[0])


def _stack(m: Model, call: Call) -> Any:
    axis = int(call.attrs.axis or 0) % (call.rank + 1)
    return m.node("Concat", *[m.node("Unsqueeze", value, [axis]) for value in call.inputs], axis=axis)


def _split(m: Model, call: Call) -> Any:
    (axis,) = call.axes("axis")
    sizes = [result.shape[axis] for result in call.results]
    if not all(isinstance(size, int) for size in sizes):
        raise Unsupported
    return m.node("Split", call.inputs[0], sizes, results=len(sizes), axis=axis)


def _strided_slice(m: Model, call: Call) -> Any:
    if call.others:  # Relax
        axes, begins, ends, *steps = (list(numbers) for numbers in call.others)
    else:
        if str(call.attrs.slice_mode) != "end" or call.attrs.begin is None or call.attrs.end is None:
            raise Unsupported
        begins, ends, steps = call.ints("begin"), call.ints("end"), [call.ints("strides")]
        axes = call.axes("axes")[: len(begins)]
        steps = [steps[0] * len(axes)] if len(steps[0]) == 1 else steps
    strides = steps[0] if steps else [1] * len(axes)
    if not axes:
        return call.inputs[0]
    axes = [axis % call.rank for axis in axes]
    for i, axis in enumerate(axes):
        extent, count = call.inputs[0].shape[axis], call.result.shape[axis]
        if isinstance(extent, int):
            part = range(extent)[begins[i] : ends[i] : strides[i]]
            if len(part) != count:
                raise Unsupported
            begins[i], ends[i] = part.start, part.start + count * strides[i]
            ends[i] = ends[i] if ends[i] >= 0 else -extent - 1
        elif strides[i] < 1:
            raise Unsupported
    return m.node("Slice", call.inputs[0], begins, ends, axes, strides)


def _reverse(m: Model, call: Call) -> Any:
    return m.node("Slice", call.inputs[0], [-1], [-(2**63)], call.axes("axis"), [-1])


def _broadcast_to(m: Model, call: Call) -> Any:
    if not all(isinstance(extent, int) for extent in call.result.shape):
        raise Unsupported  # TVM's type of the region's result has no shape then
    return m.node("Expand", call.inputs[0], list(call.result.shape))


def _tile(m: Model, call: Call) -> Any:
    counts = call.ints("reps" if hasattr(call.attrs, "reps") else "repeats")
    rank = len(call.result.shape)
    data = call.inputs[0]
    value = m.node("Unsqueeze", data, list(range(rank - call.rank))) if rank > call.rank else data
    if not rank:
        return value
    return m.node("Tile", value, [1] * (rank - len(counts)) + counts)


def _repeat(m: Model, call: Call) -> Any:
    if call.attrs.axis is None:
        raise Unsupported
    (axis,) = call.axes("axis")
    counts = [1] * (call.rank + 1)
    counts[axis + 1] = int(call.attrs.repeats)
    value = m.node("Tile", m.node("Unsqueeze", call.inputs[0], [axis + 1]), counts)
    return m.node("Reshape", value, m.extents(call.result.shape), allowzero=1)


def _pad(m: Model, call: Call) -> Any:
    pairs = [pair if hasattr(pair, "__len__") else [pair] for pair in call.attrs.pad_width]
    widths = [int(width) for pair in pairs for width in pair]
    mode = str(call.attr("pad_mode", "mode"))
    if mode not in ("constant", "edge", "reflect") or min(widths, default=0) < 0:
        raise Unsupported
    values: List[Any] = [call.inputs[0], widths[::2] + widths[1::2]]
    if mode == "constant":
        is_tensor = len(call.inputs) > 1  # in Relay, of another dtype
        pad = m.cast(call.inputs[1], call.result.dtype) if is_tensor else _number(call, call.attrs.pad_value)
        values.append(pad)
    return m.node("Pad", *values, mode=mode)


def _take(m: Model, call: Call) -> Any:
    mode = str(call.attrs.mode)
    if int(call.attr("batch_dims", default=0)) or mode not in ("clip", "wrap", "fast"):
        raise Unsupported
    data, position = call.inputs[0], m.cast(call.inputs[1], "int64")
    axis = 0 if call.attrs.axis is None else call.axes("axis")[0]
    value = m.node("Reshape", data, [-1]) if call.attrs.axis is None else data
    extent = m.node("Shape", value, start=axis, end=axis + 1)
    # A vector of one element would give a scalar another rank.
    extent = m.node("Squeeze", extent)
    if mode == "wrap":
        position = m.node("Mod", position, extent)
    else:
        position = _within(m, position, extent, from_zero=mode == "clip")
    return m.node("Gather", value, position, axis=axis)


def _within(m: Model, position: Any, extent: Any, from_zero: bool = False) -> Any:
    """Positions that do not exist as others that do: ONNX Runtime refuses them, but TVM's importers of models
    read them and do not use the result."""
    lowest = 0 if from_zero else m.node("Neg", extent)
    return m.node("Max", m.node("Min", position, m.node("Sub", extent, 1)), lowest)


def _gather(m: Model, call: Call) -> Any:
    (axis,) = call.axes("axis")
    extent = m.node("Shape", call.inputs[0], start=axis, end=axis + 1)
    position = _within(m, m.cast(call.inputs[1], "int64"), extent)
    return m.node("GatherElements", call.inputs[0], position, axis=axis)


def _gather_nd(m: Model, call: Call) -> Any:
    data, indices = call.inputs
    position, rank, batch = m.cast(indices, "int64"), len(indices.shape), int(call.attrs.batch_dims)
    is_first = hasattr(call.attrs, "index_rank")  # the axis of Relay that is the last one of ONNX
    count = indices.shape[0 if is_first else -1]
    if not isinstance(count, int):
        raise Unsupported
    if is_first:
        position = m.node("Transpose", position, perm=[*range(1, rank), 0])
    position = _within(m, position, m.node("Shape", data, start=batch, end=batch + count))
    return m.node("GatherND", data, position, batch_dims=batch)


def _triangle(upper: int) -> _Function:
    return lambda m, call: m.node("Trilu", call.inputs[0], np.asarray(call.others[0]), upper=upper)


# ---- the table ---------------------------------------------------------------------------------

_F32 = ("float16", "float32")  # float16 is cast to float32 by ONNX Runtime
_FLOATS = (*_F32, "float64")
_WIDE = ("int32", "int64")
_SMALL = ("int8", "int16", "uint8")
ALL = (*_FLOATS, *_SMALL, *_WIDE, "bool")
_NUMBERS = (*_FLOATS, *_SMALL, *_WIDE)
_Row = Tuple[_Function, Sequence[str], Sequence[str]]

#: By operator, in the names of both IRs: what adds its nodes, the dtypes that ONNX Runtime has kernels for,
#: and those that are computed in int32.
OPERATORS: Dict[str, _Row] = {}


def _row(names: str, function: _Function, native: Sequence[str], widened: Sequence[str] = ()) -> None:
    for name in names.split():
        OPERATORS[name] = (function, native, widened)


for _name in ("tanh", "exp", "log", "sqrt", "floor", "ceil", "round"):
    _row(_name, _as(_name.capitalize()), _FLOATS)
for _name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"):
    _row(_name, _as(_name.capitalize()), _F32)
_row("nn.relu", _as("Relu"), (*_FLOATS, "int32"), _SMALL)
_row("negative", _as("Neg"), (*_FLOATS, "int8", "int16", *_WIDE))
_row("rsqrt", lambda m, c: m.node("Reciprocal", m.node("Sqrt", *c.inputs)), _FLOATS)
_row("square", lambda m, c: m.node("Mul", c.inputs[0], c.inputs[0]), _NUMBERS)
_row("nn.leaky_relu nn.leakyrelu", _leaky_relu, _F32)
_row("nn.prelu", _prelu, _FLOATS)
_row("sigmoid", _sigmoid, _FLOATS)
_row("erf", _erf, _F32)
_row("nn.gelu", _as("Gelu"), _F32)
_row("nn.gelu_tanh", _as("Gelu", approximate="tanh"), _F32)
_row("nn.silu", lambda m, c: m.node("Mul", c.inputs[0], _sigmoid(m, c)), _FLOATS)
_row("nn.selu", _as("Selu"), _F32)
_row("nn.softplus", _softplus, _F32)
_row("clip", _clip, (*_FLOATS, *_WIDE), _SMALL)
_row("isfinite", _isfinite, _FLOATS)
for _name, _operator in {
    "abs": "Abs", "sign": "Sign", "add": "Add", "subtract": "Sub", "multiply": "Mul",
}.items():  # fmt: skip
    _row(_name, _as(_operator), _NUMBERS)
for _name, _operator in {"maximum": "Max", "minimum": "Min"}.items():
    _row(_name, _as(_operator), (*_FLOATS, *_WIDE), _SMALL)
for _name, _operator in {"isnan": "IsNaN", "isinf": "IsInf", "divide": "Div", "power": "Pow"}.items():
    _row(_name, _as(_operator), _FLOATS)
_row("nn.bias_add", lambda m, c: m.node("Add", c.inputs[0], _channels(m, c)), _NUMBERS)
_row("equal", _as("Equal"), ALL)
_row("not_equal", _not("Equal"), ALL)
for _name in ("less", "greater"):
    _row(_name, _as(_name.capitalize()), _NUMBERS, ("bool",))
    _row(f"{_name}_equal", _as(f"{_name.capitalize()}OrEqual"), _NUMBERS, ("bool",))
for _name in ("and", "or", "xor"):
    _row(f"logical_{_name}", _as(_name.capitalize()), ("bool",))
    _row(f"bitwise_{_name}", _as(f"Bitwise{_name.capitalize()}"), (*_SMALL, *_WIDE), ("bool",))
_row("logical_not", _as("Not"), ("bool",))
_row("bitwise_not", _as("BitwiseNot"), (*_SMALL, *_WIDE))
_row("where", _where, (*_FLOATS, *_WIDE), (*_SMALL, "bool"))
_row("cast astype", lambda m, c: m.cast(c.inputs[0], c.result.dtype), ALL)
_row("nn.dense nn.matmul nn.batch_matmul matmul", _matmul, (*_FLOATS, *_WIDE), _SMALL)
for _name in "123":
    _row(f"nn.conv{_name}d nn.conv{_name}d_transpose", _convolution, _F32)
    _row(f"nn.max_pool{_name}d", _pool, _FLOATS)
    _row(f"nn.avg_pool{_name}d", _pool, _F32)
    _row(f"nn.global_avg_pool{_name}d nn.adaptive_avg_pool{_name}d", _global_pool, _FLOATS)
    _row(f"nn.global_max_pool{_name}d nn.adaptive_max_pool{_name}d", _global_pool, (*_FLOATS, *_WIDE), _SMALL)
for _name in ("sum", "prod", "max", "min"):
    _row(_name, _reduce(f"Reduce{_name.capitalize()}"), (*_FLOATS, *_WIDE), _SMALL)
_row("mean", _reduce("ReduceMean"), _FLOATS)
_row("all", _reduce("ReduceMin"), ("bool",))
_row("any", _reduce("ReduceMax"), ("bool",))
_row("variance", _variance, _FLOATS)
_row("std", lambda m, c: m.node("Sqrt", _variance(m, c)), _FLOATS)
_row("argmax", _arg("ArgMax"), (*_FLOATS, "int32", "int64"), _SMALL)
_row("argmin", _arg("ArgMin"), (*_FLOATS, "int32", "int64"), _SMALL)
_row("cumsum", _cumsum, (*_FLOATS, *_WIDE), _SMALL)
_row("nn.softmax", _softmax("Softmax"), _FLOATS)
_row("nn.log_softmax", _softmax("LogSoftmax"), _F32)  # of float64, a row with infinity has -inf
_row("nn.batch_norm", _batch_norm, _FLOATS)
_row("nn.layer_norm", _layer_norm, _FLOATS)
_row("nn.rms_norm", _rms_norm, _FLOATS)
_row("nn.pad nn.mirror_pad", _pad, (*_FLOATS, *_WIDE), _SMALL)
_row("tril", _triangle(0), (*_FLOATS, "int64", "bool"))
_row("triu", _triangle(1), (*_FLOATS, "int64", "bool"))
for _name, _function in {
    "reshape squeeze expand_dims nn.batch_flatten flatten": _reshape, "transpose permute_dims": _transpose,
    "concatenate concat": _concat, "stack": _stack, "split": _split, "strided_slice": _strided_slice,
    "reverse flip": _reverse, "broadcast_to": _broadcast_to, "tile": _tile, "repeat": _repeat, "take": _take,
    "gather gather_elements": _gather, "gather_nd": _gather_nd,
}.items():  # fmt: skip
    _row(_name, _function, ALL)
