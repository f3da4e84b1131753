"""What this codegen offloads, and what it becomes: composites of TVM's operators as layers of ncnn.

Partitioner and code generator ask the same function, `layer_of`: where it returns None, nothing is
offloaded. So the generator never has to refuse what was promised to it.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np


class Tensor:
    """A dense row-major tensor; `data` are the values of a constant."""

    def __init__(self, shape: Sequence[Any], dtype: str, data: Optional[np.ndarray] = None) -> None:
        self.shape: Tuple[int, ...] = tuple(int(extent) for extent in shape)
        self.dtype = str(dtype)
        self.data = data


class Call(NamedTuple):
    """The call of a TVM operator."""

    name: str
    attrs: Any
    inputs: Sequence[Tensor]
    result: Tensor


class Layer(NamedTuple):
    """A layer of ncnn: `params` are numbered as in its docs/developer-guide/operators.md, `weights` in the
    order in which it reads them. before: a layer between `source` and this one."""

    kind: str
    source: Tensor
    result: Tensor
    params: Dict[int, int]
    weights: Tuple[np.ndarray, ...] = ()
    before: Optional[Layer] = None


def layer_of(calls: Sequence[Call]) -> Optional[Layer]:
    """The calls of a composite, each of which reads the one before, as a layer: conv2d or dense with bias
    and relu, pooling, softmax, or reshape. None if it is left to TVM."""
    first = calls[0]
    results = [first.inputs[0], *(call.result for call in calls)]
    if first.name not in _LAYERS or first.inputs[0].data is not None or not all(map(_fits, results)):
        return None
    layer = _LAYERS[first.name](first)
    for call in calls[1:]:
        if layer is None:
            return None
        layer = (_activated if call.name == "nn.relu" else _biased)(layer, call)
    return layer


def _fits(tensor: Tensor) -> bool:
    """Whether ncnn has such a tensor, of one to four axes. Its layers compute one sample, so the first axis
    is cut off. A loop over a larger batch would have to know that all layers of a region have the same."""
    shape = tensor.shape
    return tensor.dtype == "float32" and 2 <= len(shape) <= 5 and shape[0] == 1 and 0 not in shape


def _weight(call: Call) -> Optional[np.ndarray]:
    """ncnn prepares weights when it loads a net, so they have to be constants."""
    weight = call.inputs[1]
    return weight.data if weight.dtype == "float32" and 0 not in weight.shape else None


def _convolution(call: Call) -> Optional[Layer]:
    attrs, weight = call.attrs, _weight(call)
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout))
    if weight is None or layouts != ("NCHW", "OIHW") or str(attrs.out_layout) not in ("", "NCHW"):
        return None
    groups, (top, left, bottom, right) = int(attrs.groups), _four(attrs.padding)
    channels, (outputs, share, height, width) = call.inputs[0].shape[1], weight.shape
    if share * groups != channels or outputs % groups or call.result.shape[1] != outputs:
        return None
    (stride_h, stride_w), (dilation_h, dilation_w) = _ints(attrs.strides), _ints(attrs.dilation)
    params = {0: outputs, 1: width, 11: height, 2: dilation_w, 12: dilation_h, 3: stride_w, 13: stride_h,
              4: left, 15: right, 14: top, 16: bottom, 6: weight.size}  # fmt: skip
    kind = "Convolution" if groups == 1 else "ConvolutionDepthWise"
    if groups > 1:
        params[7] = groups
    return Layer(kind, call.inputs[0], call.result, params, (_FLOAT32, weight))


def _dense(call: Call) -> Optional[Layer]:
    weight = _weight(call)
    if weight is None or len(call.inputs[0].shape) != 2 or weight.ndim != 2:
        return None
    # Relay's weights have a row for each output, as ncnn's do, Relax's have a column.
    weight = weight if call.name == "nn.dense" else np.ascontiguousarray(weight.T)
    params = {0: weight.shape[0], 2: weight.size}
    return Layer("InnerProduct", call.inputs[0], call.result, params, (_FLOAT32, weight))


def _pooling(call: Call) -> Optional[Layer]:
    attrs, source, result = call.attrs, call.inputs[0], call.result
    if str(attrs.layout) != "NCHW" or str(attrs.out_layout) not in ("", "NCHW"):
        return None
    pads, sizes, strides = _four(attrs.padding), _ints(attrs.pool_size), _ints(attrs.strides)
    is_average = "avg" in call.name
    includes = is_average and bool(attrs.count_include_pad)
    for axis in range(2):
        extent, count, size = source.shape[2 + axis], result.shape[2 + axis], sizes[axis]
        starts = range(-pads[axis], count * strides[axis] - pads[axis], strides[axis])
        if size > 1 and int(attrs.dilation[axis]) != 1:
            return None  # ncnn does not dilate windows
        if starts[-1] >= extent or size <= pads[axis]:
            return None  # TVM divides 0 by 0 in a window of padding alone
        over = starts[-1] + size - extent - pads[2 + axis]
        if over > 0 and includes:
            return None  # TVM does not count what ceil_mode adds, ncnn does
        # The padding that ceil_mode asks for is given explicitly.
        pads[2 + axis] += max(over, 0)
    top, left, bottom, right = pads
    # 5=1: windows begin where the padded input has room for all of it.
    params = {0: int(is_average), 1: sizes[1], 11: sizes[0], 2: strides[1], 12: strides[0], 5: 1,
              6: int(includes)}  # fmt: skip
    before = None
    if is_average:
        params.update({3: left, 14: right, 13: top, 15: bottom})
    elif any(pads):
        # Pooling would pad with the least finite number, the maximum of a window of -inf.
        _, channels, height, width = source.shape
        padded = Tensor((1, channels, height + top + bottom, width + left + right), "float32")
        border = {0: top, 1: bottom, 2: left, 3: right, 6: channels}
        before = Layer("Padding", source, padded, border, (np.full(channels, -np.inf, "float32"),))
    return Layer("Pooling", source, result, params, before=before)


def _softmax(call: Call) -> Optional[Layer]:
    # No precision is declared: ncnn's exp is off by less than 2 units in the last place. Far below the
    # maximum, rounding x - max weighs more (32 units at a distance of 80), with TVM's exp as well.
    axis = int(call.attrs.axis) % len(call.result.shape)
    if axis == 0:
        return None  # the axis that is cut off
    # 1=1: without it ncnn takes the description for one of its first versions, and refuses it.
    return Layer("Softmax", call.inputs[0], call.result, {0: axis - 1, 1: 1})


def _reshape(call: Call) -> Optional[Layer]:
    extents = call.result.shape[:0:-1]
    names = ((0,), (0, 1), (0, 1, 2), (0, 1, 11, 2))[len(extents) - 1]  # w, h, d, c
    return Layer("Reshape", call.inputs[0], call.result, dict(zip(names, extents)))


def _biased(layer: Layer, call: Call) -> Optional[Layer]:
    """The layer with a constant added to each channel."""
    others = [operand for operand in call.inputs if operand is not layer.result]
    axis, shape, data = 1, layer.result.shape, others[0].data if others else None
    if layer.kind not in _BIAS_TERM or call.result.shape != shape or data is None:
        return None
    if call.name == "nn.bias_add":
        if int(call.attrs.axis) % len(shape) != axis:
            return None
    else:
        data = data.reshape((1,) * (len(shape) - data.ndim) + data.shape)
        if data.size != data.shape[axis]:
            return None
    bias = np.broadcast_to(data.ravel(), shape[axis])
    params = {**layer.params, _BIAS_TERM[layer.kind]: 1}
    return layer._replace(result=call.result, params=params, weights=(*layer.weights, bias))


def _activated(layer: Layer, call: Call) -> Optional[Layer]:
    if layer.kind not in _BIAS_TERM or call.inputs[0] is not layer.result:
        return None
    return layer._replace(result=call.result, params={**layer.params, 9: 1})


def _ints(values: Any) -> List[int]:
    return [int(value) for value in values]


def _four(padding: Any) -> List[int]:
    """The padding as top, left, bottom, right; TVM's attribute has one, two or four values."""
    return _ints(padding) * (4 // len(padding))


# The format of the weights that follow.
_FLOAT32 = np.zeros(1, "float32")
_BIAS_TERM = {"Convolution": 5, "ConvolutionDepthWise": 5, "InnerProduct": 1}
_LAYERS = {
    "nn.conv2d": _convolution, "nn.dense": _dense, "matmul": _dense, "nn.max_pool2d": _pooling,
    "nn.avg_pool2d": _pooling, "nn.softmax": _softmax, "reshape": _reshape,
}  # fmt: skip
