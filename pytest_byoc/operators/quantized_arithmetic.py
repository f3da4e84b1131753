"""Arithmetic, matrix products and convolutions of quantised tensors."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from ..core.graph import TensorType
from . import convolution, elementwise, matrix, transposed
from .quantized import (
    LIMITS,
    RANGES,
    SHAPES,
    STEP,
    check_parameter,
    check_parameters,
    output_parameters,
    per_channel,
    scale,
    zero_point,
)
from .record import (
    DATA,
    LEAD,
    WEIGHT,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    Which,
    among,
    broadcast,
)

_EXACT = "exact, in int32"
_BYTES = ("int8", "uint8")


def _named(operators: Sequence[Operator], name: str) -> Operator:
    return next(op for op in operators if op.name == name)


def _data(role: str, shape: Sequence[int], dtype: str) -> Operand:
    """Returns an operand whose elements span the whole range of its dtype."""
    return Operand(role, TensorType(tuple(shape), dtype), *RANGES[dtype])


# --- qnn.add, qnn.subtract, qnn.mul ------------------------------------------------------------------


def _input_parameters(base: float) -> Callable[[TensorType, Attrs], Classes]:
    """Returns a function that gives pairs (scale, zero point) of an operand, by class."""

    def classes(x: TensorType, chosen: Attrs) -> Classes:
        low, high = LIMITS[x.dtype]
        return {
            "odd": ((base, low + 121),),
            "power_of_two": ((0.03125, low + 128),),
            "lowest": ((base, low),),
            "highest": ((base, high),),
            "fine": ((base / 64, low + 121),),
        }

    return classes


def _lhs(x: TensorType, chosen: Attrs) -> Classes:
    classes: dict[str, Sequence[Any]] = dict(_input_parameters(0.0371)(x, chosen))
    same = tuple(chosen["other_shape"]) == x.shape
    if x.rank and same:
        low = LIMITS[x.dtype][0]
        channels: Classes = {"per_channel": ((per_channel(0.0371, x.shape[-1]), low + 121),)}
        classes.update(channels)
    return classes


def _output(x: TensorType, chosen: Attrs) -> Classes:
    equal = () if isinstance(chosen["lhs"][0], tuple) else (chosen["lhs"],)
    return {**output_parameters(x, chosen), **({"as_lhs": equal} if equal else {})}


def _binary_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    pairs = (chosen["lhs"], chosen["rhs"], chosen["output"])
    parameters = [f(v) for s, z in pairs for f, v in ((scale, s), (zero_point, z))]
    return (Operand(LEAD, x), _data(DATA, chosen["other_shape"], x.dtype), *parameters)


def _binary_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    a, b = types[:2]
    if a.dtype != b.dtype:
        raise TypeRuleError(
            "the operands have the dtypes %s and %s, which must be equal" % (a.dtype, b.dtype)
        )
    check_parameters(types[2:4], a, -1)
    check_parameters(types[4:6], b, None)
    check_parameters(types[6:], a, None)
    return (TensorType(broadcast(a.shape, b.shape), a.dtype),)


def _qnn(name: str) -> Lowering:
    def lower(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        return getattr(ns.qnn.op, name)(*args)

    return Lowering("qnn." + name, lower)


def _binary(name: str, lhs: Any, followed_by: tuple[str, ...] = ()) -> Operator:
    return Operator(
        name="qnn." + name,
        rounded=True,
        followed_by=followed_by,
        infer=_binary_infer,
        shapes=SHAPES,
        accuracy=STEP,
        accepts=lambda x: x.rank > 0,
        operands=_binary_operands,
        dtypes=_BYTES,
        ranges=RANGES,
        parameters=(
            _named(elementwise.OPERATORS, "add").parameters[0],
            Parameter("lhs", lhs, attribute=False),
            Parameter("rhs", _input_parameters(0.0613), attribute=False),
            Parameter("output", _output, attribute=False),
        ),
        relay=_qnn(name),
    )


# --- products ----------------------------------------------------------------------------------------


def _kernel_dtype(x: TensorType, chosen: Attrs) -> Classes:
    return {"same": (x.dtype,), "mixed": tuple(d for d in _BYTES if d != x.dtype)}


def _zero_points(x: TensorType, chosen: Attrs) -> Classes:
    """Returns pairs of zero points, of the input and the kernel."""
    (low, high), (other_low, other_high) = LIMITS[x.dtype], LIMITS[chosen.get("kernel_dtype", x.dtype)]
    a, b = low + 121, other_low + 131
    return {
        "both": ((a, b),),
        "none": ((0, 0),),
        "input": ((a, 0),),
        "kernel": ((0, b),),
        "edges": ((low, other_high), (high, other_low)),
    }


def _kernel_scale(n: str) -> Parameter:
    """Returns the parameter kernel_scale: one scale, or one for each output channel.

    n: the name of the parameter that is the number of output channels.
    """

    def classes(x: TensorType, chosen: Attrs) -> Classes:
        return {"per_tensor": (0.0173,), "per_channel": (per_channel(0.0173, chosen[n]),)}

    return Parameter("kernel_scale", classes, attribute=False)


_KERNEL_DTYPE = Parameter("kernel_dtype", _kernel_dtype, attribute=False)
_ZERO_POINTS = Parameter("zero_points", _zero_points, attribute=False)


def _with_parameters(x: TensorType, kernel: Operand, chosen: Attrs) -> tuple[Operand, ...]:
    z = chosen["zero_points"]
    scales = scale(0.0371), scale(chosen.get("kernel_scale", 0.0173))
    return (Operand(LEAD, x), kernel, zero_point(z[0]), zero_point(z[1]), *scales)


def _product_operands(of: Operator) -> Callable[[TensorType, Attrs], tuple[Operand, ...]]:
    """Returns a function that gives the operands of `of`, followed by scales and zero points."""

    def operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
        other = of.operands(x, chosen)[1]
        dtype = chosen.get("kernel_dtype", x.dtype)
        return _with_parameters(x, _data(other.role, other.type.shape, dtype), chosen)

    return operands


def _check_product(types: Sequence[TensorType], channels: int) -> None:
    if types[0].dtype not in _BYTES or types[1].dtype not in _BYTES:
        raise TypeRuleError(
            "%s and %s have no quantised product: operands of int8 or uint8 are needed" % (types[0], types[1])
        )
    result = TensorType((channels,), "int32")
    check_parameter(types[2], "int32", result, None, "a zero point")
    check_parameter(types[3], "int32", result, None, "a zero point")
    check_parameter(types[4], "float32", result, None, "a scale")
    check_parameter(types[5], "float32", result, 0, "a scale")


def _plain(types: Sequence[TensorType]) -> tuple[TensorType, ...]:
    """Returns the types of the two factors with the dtype int32, in which products are summed."""
    return tuple(TensorType(t.shape, "int32") for t in types[:2])


def _conv2d_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    _check_product(types, attrs["channels"])
    return convolution.conv_infer(_plain(types), attrs)


def _conv2d_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.qnn.op.conv2d(*args, **attrs)


def _after(of: Operator) -> Callable[[Sequence[TensorType], Attrs], tuple[TensorType, ...]]:
    """Returns the type rule of the matrix product `of`, with an int32 result."""

    def infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
        _check_product(types, attrs.get("units", 0))
        return of.infer(_plain(types), {"transpose_a": False, "transpose_b": True, **attrs})

    return infer


def _dense_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.qnn.op.dense(*args, units=attrs["units"])


def _batch_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    other = _data(DATA, (chosen["batch"], chosen["columns"], x.shape[2]), x.dtype)
    return _with_parameters(x, other, chosen)


# --- qnn.conv2d_transpose ----------------------------------------------------------------------------


def _transpose_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    _, c, _ = convolution.image(x, chosen["data_layout"])
    shape = (c, chosen["channels"], *chosen["kernel_size"])
    return _with_parameters(x, _data(WEIGHT, shape, chosen["kernel_dtype"]), chosen)


def _transpose_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    _check_product(types, attrs["channels"])
    return transposed.infer(_plain(types), {"dilation": (1, 1), **attrs})


def _transpose_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.qnn.op.conv2d_transpose(*args, **attrs, out_dtype="int32")


_CONV2D = _named(convolution.OPERATORS, "nn.conv2d")
_TRANSPOSE = _named(transposed.OPERATORS, "nn.conv2d_transpose")
#: Values of nn.conv2d_transpose's parameters that qnn.conv2d_transpose supports. TVM's LLVM build
#: compiles only the layout NCHW.
_ONLY = {"data_layout": ("NCHW", "NHWC"), "kernel_layout": ("IOHW",), "groups": (1,)}
_DENSE = _named(matrix.OPERATORS, "nn.dense")
_BATCH = _named(matrix.OPERATORS, "nn.batch_matmul")


def _unbuilt(of: Operator) -> Mapping[str, Which]:
    return of.relay.unbuilt if of.relay is not None else {}


def _product(name: str, **fields: Any) -> Operator:
    return Operator(
        name=name, accuracy=_EXACT, dtypes=_BYTES, ranges=RANGES, quantized_product=True, **fields
    )


OPERATORS: tuple[Operator, ...] = (
    _product(
        "qnn.conv2d",
        followed_by=("qnn.requantize", "nn.bias_add"),
        infer=_conv2d_infer,
        shapes=_CONV2D.shapes,
        large=_CONV2D.large,
        accepts=_CONV2D.accepts,
        operands=_product_operands(_CONV2D),
        parameters=(
            *(p for p in _CONV2D.parameters if p.name != "out_dtype"),
            _KERNEL_DTYPE,
            _ZERO_POINTS,
            _kernel_scale("channels"),
        ),
        relay=Lowering("qnn.conv2d", _conv2d_relay, unbuilt=_unbuilt(_CONV2D)),
    ),
    _product(
        "qnn.dense",
        followed_by=("qnn.requantize", "nn.bias_add"),
        infer=_after(_DENSE),
        shapes=_DENSE.shapes,
        accepts=_DENSE.accepts,
        operands=_product_operands(_DENSE),
        parameters=(_DENSE.parameters[0], _KERNEL_DTYPE, _ZERO_POINTS, _kernel_scale("units")),
        relay=Lowering("qnn.dense", _dense_relay),
    ),
    _binary("add", _lhs, followed_by=("qnn.mul", "qnn.dequantize")),
    # No scales per channel: TVM multiplies the scales of both operands element by element, and
    # reads beyond the end if one operand has a single scale.
    _binary("mul", _input_parameters(0.0371)),
    _binary("subtract", _lhs),
    _product(
        "qnn.conv2d_transpose",
        followed_by=("qnn.requantize",),
        infer=_transpose_infer,
        shapes=_TRANSPOSE.shapes,
        large=_TRANSPOSE.large,
        accepts=_TRANSPOSE.accepts,
        operands=_transpose_operands,
        parameters=(
            *(
                p.narrowed(among(*_ONLY[p.name])) if p.name in _ONLY else p
                for p in _TRANSPOSE.parameters
                if p.name not in ("dilation", "out_dtype")
            ),
            _KERNEL_DTYPE,
            _ZERO_POINTS,
            _kernel_scale("channels"),
        ),
        relay=Lowering("qnn.conv2d_transpose", _transpose_relay),
    ),
    _product(
        "qnn.batch_matmul",
        followed_by=("qnn.requantize",),
        infer=_after(_BATCH),
        shapes=_BATCH.shapes,
        accepts=_BATCH.accepts,
        operands=_batch_operands,
        parameters=(
            *(p for p in _BATCH.parameters if p.name in ("batch", "columns")),
            _ZERO_POINTS,
        ),
        relay=_qnn("batch_matmul"),
    ),
)
