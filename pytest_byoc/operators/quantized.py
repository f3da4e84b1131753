"""Quantisation: conversions to, from and between quantised tensors.

Scales and zero points are constant operands. Parameters that are no attributes give their values: a
number for the whole tensor, or a tuple with a number for each channel along `axis`.
"""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from . import elementwise, shape
from .record import (
    CONSTANT,
    DATA,
    LEAD,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    normalize_axis,
)

#: Range of a quantised operand's elements by dtype: the whole range of 8-bit dtypes; for wider ones
#: a range like that of sums of products.
RANGES = {
    "int8": (-128.0, 127.0),
    "uint8": (0.0, 255.0),
    "int16": (-1000.0, 1000.0),
    "int32": (-1000.0, 1000.0),
}
#: Smallest and largest integer by dtype.
LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "int32": (-(2**31), 2**31 - 1)}
#: The accuracy of results that are rounded to an integer: near the middle between two integers,
#: both are right.
STEP = "exact, +-1 step where float32 and fixed-point arithmetic, or possible roundings, differ"

#: Factors by which the scales of the channels differ; they repeat.
_CHANNELS = (1.0, 0.5, 1.7, 0.83, 1.21)


def constant(value: Any, dtype: str) -> Operand:
    """Returns the operand of a scale or a zero point: a number, or a tuple of numbers."""
    if isinstance(value, tuple):
        return Operand(CONSTANT, TensorType((len(value),), dtype), data=list(value))
    return Operand(CONSTANT, TensorType((), dtype), data=value)


def scale(value: Any) -> Operand:
    return constant(value, "float32")


def zero_point(value: Any) -> Operand:
    return constant(value, "int32")


def per_channel(base: float, n: int) -> tuple[float, ...]:
    """Returns n scales around `base`, of which up to five differ."""
    return tuple(base * _CHANNELS[i % len(_CHANNELS)] for i in range(n))


def _length(x: TensorType, axis: int) -> int:
    return x.shape[axis] if x.rank else 0


def scales(x: TensorType, axis: int | None, base: float, **more: tuple[float, ...]) -> Classes:
    """Returns scales around `base`, and for an axis also a scale for each channel.

    The latter comes first for an axis other than the last: with a single scale the axis has no
    effect. more: further classes.
    """
    classes: dict[str, Sequence[Any]] = {"odd": (base,), "power_of_two": (_power_of_two(base),), **more}
    if axis is not None and x.rank:
        channels: dict[str, Sequence[Any]] = {"per_channel": (per_channel(base, _length(x, axis)),)}
        classes = {**classes, **channels} if axis == -1 else {**channels, **classes}
    return classes


def _power_of_two(base: float) -> float:
    power = 1.0
    while power > base:
        power /= 2
    return power


def zero_points(x: TensorType, axis: int | None, dtype: str) -> Classes:
    """Returns zero points of a tensor of that dtype, including both ends of 8-bit dtypes."""
    low, high = LIMITS[dtype]
    odd = (3, 117) if dtype == "uint8" else (-5, 11)
    classes: dict[str, Sequence[Any]] = {"zero": (0,), "odd": odd}
    if dtype.endswith("int8"):
        classes.update(lowest=(low,) if low else (), highest=(high,))
    if axis is not None and x.rank:
        cycle = (odd[1], 0, odd[0], 7)
        classes["per_channel"] = (tuple(cycle[i % 4] for i in range(_length(x, axis))),)
    return {k: v for k, v in classes.items() if v}


def axes(x: TensorType, chosen: Attrs) -> Classes:
    """Returns the channel axes."""
    return {"last": (-1,), "other": tuple(range(x.rank - 1))}


def check_parameter(t: TensorType, dtype: str, x: TensorType, axis: int | None, what: str) -> None:
    """Raises TypeRuleError unless t has rank 0, or one element for each channel of x along `axis`.

    With `axis` None it must have rank 0. what: the name of the parameter in the message.
    """
    if t.dtype != dtype:
        raise TypeRuleError("%s has the wrong dtype %s" % (what, t.dtype))
    if t.rank == 0:
        return
    if axis is None or t.rank > 1 or not x.rank or t.shape[0] != x.shape[normalize_axis(axis, x.rank)]:
        raise TypeRuleError("%s of the shape %s does not fit %s" % (what, t.shape, x))


def check_parameters(
    types: Sequence[TensorType], x: TensorType, axis: int | None, quantized: str = "int32"
) -> None:
    """Checks a scale and a zero point, in this order; raises TypeRuleError.

    quantized: the dtype of the quantised values, in which Relax takes zero points too.
    """
    check_parameter(types[0], "float32", x, axis, "a scale")
    check_parameter(types[1], quantized if types[1].dtype == quantized else "int32", x, axis, "a zero point")


# --- qnn.quantize, qnn.dequantize --------------------------------------------------------------------


def _quantize_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return Operand(LEAD, x), scale(chosen["scale"]), zero_point(chosen["zero_point"])


def _quantize_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, out = types[0], attrs["out_dtype"]
    check_parameters(types[1:], x, attrs["axis"], out if x.dtype.startswith("float") else x.dtype)
    return (TensorType(x.shape, out),)


def _quantize_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.qnn.op.quantize(*args, axis=attrs["axis"], out_dtype=attrs["out_dtype"])


def _dequantize_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    # TVM 0.9 has no out_dtype.
    more = {} if attrs["out_dtype"] == "float32" else {"out_dtype": attrs["out_dtype"]}
    return ns.qnn.op.dequantize(*args, axis=attrs["axis"], **more)


def _relax(name: str) -> Lowering:
    def lower(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
        return getattr(ns, name)(*args, axis=attrs["axis"], out_dtype=attrs["out_dtype"])

    return Lowering(name, lower)


_QUANTIZE = Operator(
    name="qnn.quantize",
    rounded=True,
    followed_by=("qnn.conv2d", "qnn.dense", "qnn.conv2d_transpose", "qnn.add"),
    infer=_quantize_infer,
    shapes=elementwise.SHAPES,
    accuracy="exact, +-1 step where the quotient (3 roundings) lies in the middle of two steps",
    operands=_quantize_operands,
    dtypes=("float32", "float16"),
    parameters=(
        Parameter("axis", axes),
        Parameter("out_dtype", {"int8": ("int8",), "uint8": ("uint8",), "int16": ("int16",)}),
        Parameter(
            "scale",
            # unit: the scales that TFLite prescribes for the results of softmax and sigmoid.
            lambda x, chosen: scales(
                x, chosen["axis"], 0.0371, saturating=(0.0071,), coarse=(0.83,), unit=(1 / 256, 1 / 32768)
            ),
            attribute=False,
        ),
        Parameter(
            "zero_point",
            lambda x, chosen: zero_points(x, chosen["axis"], chosen["out_dtype"]),
            attribute=False,
        ),
    ),
    relay=Lowering("qnn.quantize", _quantize_relay),
    relax=_relax("quantize"),
)

_DEQUANTIZE = Operator(
    name="qnn.dequantize",
    scale_parameters=("scale", "zero_point"),
    infer=_quantize_infer,
    shapes=elementwise.SHAPES,
    accuracy="IEEE 754: the integer, the product and the cast are rounded, 3 * 1/2 ulp",
    operands=_quantize_operands,
    dtypes=("int8", "uint8", "int16", "int32"),
    ranges=RANGES,
    parameters=(
        Parameter("axis", axes),
        Parameter("out_dtype", {"float32": ("float32",), "float16": ("float16",)}),
        Parameter(
            "scale",
            lambda x, chosen: scales(x, chosen["axis"], 0.0371, awkward=(0.3333333,)),
            attribute=False,
        ),
        Parameter(
            "zero_point", lambda x, chosen: zero_points(x, chosen["axis"], x.dtype), attribute=False
        ),
    ),
    relay=Lowering("qnn.dequantize", _dequantize_relay),
    relax=_relax("dequantize"),
)


# --- qnn.requantize ----------------------------------------------------------------------------------


def _requantize_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return (
        Operand(LEAD, x),
        scale(chosen["input_scale"]),
        zero_point(chosen["input_zero_point"]),
        scale(chosen["output_scale"]),
        zero_point(chosen["output_zero_point"]),
    )


def _requantize_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    check_parameters(types[1:3], types[0], attrs["axis"])
    check_parameters(types[3:], types[0], None)
    return (TensorType(types[0].shape, attrs["out_dtype"]),)


def _requantize_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.qnn.op.requantize(*args, **attrs)


def _middles(classes: Classes, chosen: Attrs) -> Classes:
    """Returns the classes with powers of two first if `rounding` is named.

    Many quotients of powers of two lie in the middle between two integers, and only there do the
    roundings differ.
    """
    if chosen["rounding"] == "None":
        return classes
    return {"power_of_two": classes["power_of_two"], **classes}


def _input_scale(x: TensorType, chosen: Attrs) -> Classes:
    base, power = (0.0371, 0.03125) if x.dtype.endswith("int8") else (0.00371, 0.015625)
    return _middles(scales(x, chosen["axis"], base, power_of_two=(power,)), chosen)


def _output_scale(x: TensorType, chosen: Attrs) -> Classes:
    classes = scales(x, None, 0.0523, power_of_two=(0.125,), saturating=(0.011,), coarse=(0.31,))
    equal = chosen["input_scale"]
    return _middles(classes if isinstance(equal, tuple) else {**classes, "equal": (equal,)}, chosen)


#: No rank 0: with a zero point other than 0, TVM's build gives it rank 1 and then rejects it. A
#: shape with many elements is second, since the cases of the first parameters use it.
SHAPES = ((2, 3, 5), (2, 67), *(s for s in elementwise.SHAPES if s not in ((), (2, 3, 5), (2, 67))))

_REQUANTIZE = Operator(
    name="qnn.requantize",
    scale_parameters=("input_scale", "input_zero_point"),
    rounded=True,
    followed_by=("clip", "nn.max_pool2d", "qnn.conv2d", "qnn.add", "qnn.dequantize"),
    infer=_requantize_infer,
    shapes=SHAPES,
    accuracy=STEP,
    accepts=lambda x: x.rank > 0,
    operands=_requantize_operands,
    dtypes=("int32", "int8", "uint8", "int16"),
    ranges=RANGES,
    parameters=(
        Parameter("axis", axes),
        Parameter(
            "rounding", {"unnamed": ("None",), "upward": ("UPWARD",), "tonearest": ("TONEAREST",)}
        ),
        Parameter(
            "compute_dtype",
            {"unnamed": ("None",), "integer": ("int64",), "float": ("float32",), "double": ("float64",)},
        ),
        Parameter(
            "out_dtype", {"int8": ("int8",), "uint8": ("uint8",), "int16": ("int16",), "int32": ("int32",)}
        ),
        Parameter("input_scale", _input_scale, attribute=False),
        Parameter(
            "input_zero_point",
            lambda x, chosen: zero_points(x, chosen["axis"], x.dtype),
            attribute=False,
        ),
        Parameter("output_scale", _output_scale, attribute=False),
        Parameter(
            "output_zero_point",
            lambda x, chosen: zero_points(x, None, chosen["out_dtype"]),
            attribute=False,
        ),
    ),
    relay=Lowering("qnn.requantize", _requantize_relay),
)


# --- qnn.concatenate ---------------------------------------------------------------------------------

_CONCATENATE = next(op for op in shape.OPERATORS if op.name == "concatenate")


def output_parameters(x: TensorType, chosen: Attrs) -> Classes:
    """Returns pairs (scale, zero point) of a result that has the dtype of x."""
    low, high = LIMITS[x.dtype]
    return {
        "odd": ((0.0523, low + 131),),
        "power_of_two": ((0.0625, low + 128),),
        "saturating": ((0.0113, low + 100),),
        "lowest": ((0.0823, low),),
        "highest": ((0.0823, high),),
    }


def _joined_parameters(x: TensorType, chosen: Attrs) -> Classes:
    """Returns tuples of pairs (scale, zero point), which the operands use in turn."""
    low, high = LIMITS[x.dtype]
    return {
        "different": (((0.0371, low + 121), (0.0613, low + 140), (0.0199, low + 128)),),
        "as_output": ((chosen["output"],),),
        "one_as_output": ((chosen["output"], (0.0613, low + 140)),),
        "edges": (((0.0371, high), (0.0613, low)),),
    }


def _concatenate_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    low, high = RANGES[x.dtype]
    parts = [
        o if o.role == LEAD else Operand(DATA, o.type, low, high)
        for o in _CONCATENATE.operands(x, chosen)
    ]
    of = [chosen["inputs"][i % len(chosen["inputs"])] for i in range(len(parts))]
    output = chosen["output"]
    return (
        *parts,
        *(scale(s) for s, _ in of),
        *(zero_point(z) for _, z in of),
        scale(output[0]),
        zero_point(output[1]),
    )


def _concatenate_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    n = (len(types) - 2) // 3
    for s, z in zip(types[n : 2 * n], types[2 * n : 3 * n]):
        check_parameters((s, z), types[0], None)
    check_parameters(types[-2:], types[0], None)
    return _CONCATENATE.infer(types[:n], attrs)


def _concatenate_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    n = (len(args) - 2) // 3
    parts, of = args[:n], (args[n : 2 * n], args[2 * n : 3 * n])
    return ns.qnn.op.concatenate(parts, *of, args[-2], args[-1], axis=attrs["axis"])


# Some operators are left out, since the LLVM build of TVM 0.16 (the fork measured here) runs none
# of them: the operators implemented by a table (qnn.sqrt, qnn.rsqrt, qnn.exp, qnn.erf, qnn.sigmoid,
# qnn.hardswish, qnn.tanh, qnn.log, qnn.abs), whose table it computes for another machine than the
# host; qnn.leaky_relu, whose Python and C++ functions have different operands; qnn.softmax and
# qnn.avg_pool2d, which this TVM lacks.
OPERATORS: tuple[Operator, ...] = (
    _QUANTIZE,
    _DEQUANTIZE,
    _REQUANTIZE,
    Operator(
        name="qnn.concatenate",
        rounded=True,
        infer=_concatenate_infer,
        shapes=_CONCATENATE.shapes,
        accuracy=STEP,
        accepts=_CONCATENATE.accepts,
        operands=_concatenate_operands,
        dtypes=("int8", "uint8"),
        ranges=RANGES,
        parameters=(
            *_CONCATENATE.parameters,
            Parameter("output", output_parameters, attribute=False),
            Parameter("inputs", _joined_parameters, attribute=False),
        ),
        relay=Lowering("qnn.concatenate", _concatenate_relay),
    ),
)
