"""What this codegen offloads, and what it becomes: TVM's operators as primitives of oneDNN.

Partitioner and code generator ask the same two functions, `step_of` and `fuse`: where one of them
returns None, nothing is offloaded. So the generator never has to refuse what was promised to it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .library import has_exact_int8

DTYPES = {
    "float32": "dnnl_f32", "bfloat16": "dnnl_bf16",
    "int8": "dnnl_s8", "uint8": "dnnl_u8", "int32": "dnnl_s32",
}  # fmt: skip


class Tensor:
    """A dense row-major tensor; `data` are the values of a constant."""

    def __init__(self, shape: Sequence[Any], dtype: str, data: Any = None) -> None:
        self.shape: Tuple[int, ...] = tuple(int(extent) for extent in shape)
        self.dtype = str(dtype)
        self.data = data


class Operand(NamedTuple):
    """A tensor as a primitive sees it: reshaped to `dims`, then axis i moved to position axes[i].

    code: what it is for the primitive. layout: "GIVEN" (the one that the tensor has), "ANY" (oneDNN
    chooses it) or "PLAIN" (row-major).
    """

    code: str
    tensor: Tensor
    dims: Tuple[int, ...]
    axes: Tuple[int, ...]
    layout: str = "GIVEN"


class Step(NamedTuple):
    """One primitive. The last operand is the result; `fields` are those of the C struct Step."""

    kind: str
    operands: List[Operand]
    fields: Dict[str, Any]

    @property
    def result(self) -> Tensor:
        return self.operands[-1].tensor


Tensors = Sequence[Tensor]


def step_of(name: str, attrs: Any, inputs: Tensors, result: Tensor) -> Optional[Step]:
    """The call of a TVM operator as a step, or None if it stays with TVM."""
    if name not in OPERATORS or any(0 in t.shape or len(t.shape) > 5 for t in (*inputs, result)):
        return None
    dtypes = [t.dtype for t in (*inputs, result)]
    # Products of int8 are summed in int32, by TVM's operators and by oneDNN's.
    is_int8 = name in INT8 and dtypes in (["int8", "int8", "int32"], ["uint8", "int8", "int32"])
    is_bfloat16 = name in BFLOAT16 and set(dtypes) == {"bfloat16"}
    if not (is_int8 or is_bfloat16 or set(dtypes) == {"float32"}):
        return None
    return OPERATORS[name](name, attrs, inputs, result)


def fuse(steps: Sequence[Step]) -> Optional[Step]:
    """The steps of a composite as one: contraction, bias, addend, activation, each but the first
    optional, and each reading the result before. None if they are not."""
    step = steps[0]
    for following in steps[1:]:
        kind, operands, fields = step
        reads = following.operands[:-1]
        others = [operand for operand in reads if operand.tensor is not step.result]
        result = operands[-1]._replace(tensor=following.result)
        shape, axes = following.result.shape, result.axes
        if kind not in _CONTRACTIONS or step.result.dtype == "int32" or "activation" in fields:
            return None
        if len(others) != len(reads) - 1 or shape != step.result.shape:
            return None
        channel = axes.index(1) if kind == "dnnl_convolution" else len(shape) - 1
        codes = [operand.code for operand in operands]
        if following.kind == "dnnl_eltwise":
            names = {"algorithm": "activation", "alpha": "activation_alpha", "beta": "activation_beta"}
            fields = dict(fields, **{names[name]: value for name, value in following.fields.items()})
        elif following.fields.get("algorithm") != "dnnl_binary_add" or _ADDEND in codes:
            return None
        elif _BIAS not in codes and others[0].dims == _only(channel, shape):
            dims = shape[channel:][:1] if kind == "dnnl_convolution" else others[0].dims
            operands = [*operands, _view(_BIAS, others[0].tensor, dims)]
        elif others[0].dims == shape:
            operands = [*operands, _view(_ADDEND, others[0].tensor, shape, axes, "ANY")]
        else:
            return None
        step = Step(kind, [*(o for o in operands if o.tensor is not step.result), result], fields)
    return step


_CONTRACTIONS = ("dnnl_convolution", "dnnl_matmul")
_SRC, _WEIGHTS, _BIAS, _DST = (f"DNNL_ARG_{name}" for name in ("SRC", "WEIGHTS", "BIAS", "DST"))
_ADDEND = "ADDEND"


def _view(
    code: str,
    tensor: Tensor,
    dims: Optional[Sequence[int]] = None,
    axes: Optional[Sequence[int]] = None,
    layout: str = "GIVEN",
) -> Operand:
    dims = tuple(tensor.shape or (1,)) if dims is None else tuple(dims)
    return Operand(code, tensor, dims, tuple(range(len(dims)) if axes is None else axes), layout)


def _result(tensor: Tensor, axes: Optional[Sequence[int]] = None) -> Operand:
    return _view(_DST, tensor, None, axes, "ANY")


def _only(axis: int, shape: Sequence[int]) -> Tuple[int, ...]:
    return tuple(extent if i == axis else 1 for i, extent in enumerate(shape))


def _raised(tensor: Tensor, rank: int) -> Tuple[int, ...]:
    """The shape with as many leading 1 as the rank asks for."""
    return (1,) * (rank - len(tensor.shape)) + tensor.shape


def ints(values: Any) -> List[int]:
    return [int(value) for value in values]


def _spatial(layout: str) -> str:
    """The spatial axes of a layout such as NHWC or OIHW; "" for those that are not understood."""
    letters = "".join(letter for letter in layout if letter not in "NCOI")
    known = letters in ("W", "HW", "DHW") and len(layout) == len(letters) + 2
    return letters if known else ""


def _window(attrs: Any, kernel: Sequence[int]) -> Dict[str, List[int]]:
    count, pads = len(kernel), ints(attrs.padding)
    pads *= 2 * count // len(pads)  # one for all sides, or one for each axis, or all
    # oneDNN refuses to pool with windows of one element that are dilated, which means nothing.
    dilates = [dilation - 1 if size > 1 else 0 for dilation, size in zip(ints(attrs.dilation), kernel)]
    return {"strides": ints(attrs.strides), "dilates": dilates, "left": pads[:count], "right": pads[count:]}


def _convolution(name: str, attrs: Any, inputs: Tensors, result: Tensor) -> Optional[Step]:
    data, weight = inputs
    layout, kernel, groups = str(attrs.data_layout), str(attrs.kernel_layout), int(attrs.groups)
    space = _spatial(layout)
    if not space or _spatial(kernel) != space or str(attrs.out_layout) not in ("", layout):
        return None
    sizes = dict(zip(kernel, weight.shape))
    channels, out_channels = data.shape[layout.index("C")], result.shape[layout.index("C")]
    if sizes["I"] * groups != channels or sizes["O"] != out_channels or out_channels % groups:
        return None
    axes = [f"NC{space}".index(letter) for letter in layout]
    dims: List[int] = []
    for letter in kernel:
        dims += [groups, sizes["O"] // groups] if letter == "O" else [sizes[letter]]
    letters = kernel.replace("O", "GO")
    operands = [
        _view(_SRC, data, data.shape, axes, "ANY"),
        _view(_WEIGHTS, weight, dims, [f"GOI{space}".index(letter) for letter in letters], "ANY"),
        _result(result, axes),
    ]
    return Step("dnnl_convolution", operands, _window(attrs, [sizes[letter] for letter in space]))


def _matmul(name: str, attrs: Any, inputs: Tensors, result: Tensor) -> Optional[Step]:
    a, b = inputs
    rank = len(result.shape)
    if min(len(a.shape), len(b.shape)) < 2:
        return None
    straight = list(range(rank))
    swapped = [*straight[:-2], rank - 1, rank - 2]
    is_dense = name == "nn.dense"
    transposed = (
        not is_dense and bool(getattr(attrs, "transpose_a", False)),
        is_dense or bool(getattr(attrs, "transpose_b", False)),
    )
    operands = [
        _view(code, tensor, _raised(tensor, rank), swapped if is_swapped else straight, "ANY")
        for code, tensor, is_swapped in zip((_SRC, _WEIGHTS), inputs, transposed)
    ]
    return Step("dnnl_matmul", [*operands, _result(result)], {})


def _pooling(name: str, attrs: Any, inputs: Tensors, result: Tensor) -> Optional[Step]:
    layout = str(attrs.layout)
    space = _spatial(layout)
    if not space or str(attrs.out_layout) not in ("", layout):
        return None
    axes = [f"NC{space}".index(letter) for letter in layout]
    fields: Dict[str, Any] = dict(_window(attrs, ints(attrs.pool_size)), kernel=ints(attrs.pool_size))
    includes = "avg" in name and bool(attrs.count_include_pad)
    for i, letter in enumerate(space):
        size, count = inputs[0].shape[layout.index(letter)], result.shape[layout.index(letter)]
        stride, step, left, right = (fields[f][i] for f in ("strides", "dilates", "left", "right"))
        for window in range(count):
            taps = [window * stride - left + k * (step + 1) for k in range(fields["kernel"][i])]
            if not any(0 <= tap < size for tap in taps):
                return None  # TVM divides 0 by 0 there
            if includes and taps[-1] >= size + right:
                return None  # TVM does not count what ceil_mode adds, oneDNN does
        # The padding that ceil_mode asks for is given explicitly.
        fields["right"][i] = max(right, taps[-1] + 1 - size)
    average = "dnnl_pooling_avg_include_padding" if includes else "dnnl_pooling_avg_exclude_padding"
    fields["algorithm"] = average if "avg" in name else "dnnl_pooling_max"
    operands = [_view(_SRC, inputs[0], inputs[0].shape, axes), _result(result, axes)]
    return Step("dnnl_pooling", operands, fields)


def _normalization(name: str, attrs: Any, inputs: Tensors, result: Tensor) -> Optional[Step]:
    is_batch = name == "nn.batch_norm"
    axes = [attrs.axis] if hasattr(attrs, "axis") else list(attrs.axes)
    rank = len(result.shape)
    if rank < 2 or [int(axis) % rank for axis in axes] != [1 if is_batch else rank - 1]:
        return None
    if is_batch and getattr(attrs, "training", False):
        return None  # the statistics are those of the batch then
    flags, names = [], ["SRC"]
    for name, given in (("SCALE", attrs.scale), ("SHIFT", attrs.center)):
        names.append(name if given else "")
        flags += [f"dnnl_use_{name.lower()}"] if given else []
    if is_batch:
        flags.append("dnnl_use_global_stats")
        names += ["MEAN", "VARIANCE"]
    operands = [_view(f"DNNL_ARG_{name}", tensor) for name, tensor in zip(names, inputs) if name]
    fields = {"alpha": float(attrs.epsilon), "flags": " | ".join(flags) or "0"}
    kind = "dnnl_batch_normalization" if is_batch else "dnnl_layer_normalization"
    return Step(kind, [*operands, _result(result)], fields)


def _binary(name: str, attrs: Any, inputs: Tensors, result: Tensor) -> Optional[Step]:
    rank = max(len(result.shape), 1)
    dims = [_raised(tensor, rank) for tensor in inputs]
    if name == "nn.bias_add":
        dims[1] = _only(int(attrs.axis) % rank, result.shape)
    codes = ("DNNL_ARG_SRC_0", "DNNL_ARG_SRC_1")
    operands = [_view(*given) for given in zip(codes, inputs, dims)]
    return Step("dnnl_binary", [*operands, _result(result)], {"algorithm": f"dnnl_binary_{_BINARY[name]}"})


def _eltwise(name: str, attrs: Any, inputs: Tensors, result: Tensor) -> Optional[Step]:
    algorithm, alpha = _ELTWISE[name]
    fields: Dict[str, Any] = {"algorithm": f"dnnl_eltwise_{algorithm}", "alpha": alpha}
    if name in ("nn.leaky_relu", "nn.leakyrelu"):
        fields["alpha"] = float(attrs.alpha)
    return Step("dnnl_eltwise", [_view(_SRC, inputs[0]), _result(result)], fields)


def _softmax(name: str, attrs: Any, inputs: Tensors, result: Tensor) -> Optional[Step]:
    if not result.shape:
        return None
    fields = {"algorithm": "dnnl_softmax_accurate", "axis": int(attrs.axis) % len(result.shape)}
    operands = [_view(code, tensor, layout="PLAIN") for code, tensor in ((_SRC, inputs[0]), (_DST, result))]
    return Step("dnnl_softmax", operands, fields)


def _concat(name: str, attrs: Any, inputs: Tensors, result: Tensor) -> Optional[Step]:
    if attrs.axis is None or not result.shape or len(inputs) > 15:
        return None
    operands = [_view(f"DNNL_ARG_MULTIPLE_SRC + {i}", tensor) for i, tensor in enumerate(inputs)]
    return Step("dnnl_concat", [*operands, _result(result)], {"axis": int(attrs.axis) % len(result.shape)})


_BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "maximum": "max",
    "minimum": "min", "nn.bias_add": "add",
}  # fmt: skip
# Not exp, log, gelu and silu: of NaN, exp is infinite there; gelu of infinity is NaN, and of -6.9 it has
# no correct digit; log is off by 20 units in the last place at 3.2, and log_softmax as much.
_ELTWISE = {
    "nn.relu": ("relu", 0.0), "nn.leaky_relu": ("relu", 0.0), "nn.leakyrelu": ("relu", 0.0),
    "sigmoid": ("logistic", 0.0), "tanh": ("tanh", 0.0), "sqrt": ("sqrt", 0.0),
    "abs": ("abs", 0.0), "negative": ("linear", -1.0),
}  # fmt: skip
ACTIVATIONS = ("nn.relu", "sigmoid", "tanh")
OPERATORS: Dict[str, Callable[[str, Any, Tensors, Tensor], Optional[Step]]] = {
    "nn.conv2d": _convolution,
    "nn.dense": _matmul, "nn.batch_matmul": _matmul, "matmul": _matmul,
    "nn.max_pool2d": _pooling, "nn.avg_pool2d": _pooling,
    "nn.batch_norm": _normalization, "nn.layer_norm": _normalization,
    "nn.softmax": _softmax, "concatenate": _concat, "concat": _concat,
    **dict.fromkeys(_BINARY, _binary), **dict.fromkeys(_ELTWISE, _eltwise),
}  # fmt: skip
BFLOAT16 = ("nn.conv2d", "nn.dense", "nn.batch_matmul", "matmul", "nn.relu", "nn.avg_pool2d", *_BINARY,
            "concatenate", "concat")  # fmt: skip
INT8 = ("nn.conv2d", "nn.dense", "nn.batch_matmul", "matmul") if has_exact_int8() else ()
