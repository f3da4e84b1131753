"""Quantisation: to quantised tensors, from them, between them.

Scales and zero points are constants, chosen by parameters that are no attributes: a number for the
whole tensor, or a tuple of one for each channel along `axis`.
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

#: The whole of the 8-bit dtypes, results of some products otherwise.
RANGES = {
    "int8": (-128.0, 127.0),
    "uint8": (0.0, 255.0),
    "int16": (-1000.0, 1000.0),
    "int32": (-1000.0, 1000.0),
}
LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767), "int32": (-(2**31), 2**31 - 1)}
#: Which of two integers a number near their middle becomes is left open.
STEP = "exact, +-1 step where float32 and fixed-point arithmetic, or an unnamed rounding, round apart"

#: By how much the channels' scales differ.
_CHANNELS = (1.0, 0.5, 1.7, 0.83, 1.21)


def constant(value: Any, dtype: str) -> Operand:
    """A scale or a zero point: a number, or a tuple of them."""
    if isinstance(value, tuple):
        return Operand(CONSTANT, TensorType((len(value),), dtype), data=list(value))
    return Operand(CONSTANT, TensorType((), dtype), data=value)


def scale(value: Any) -> Operand:
    return constant(value, "float32")


def zero_point(value: Any) -> Operand:
    return constant(value, "int32")


def per_channel(base: float, n: int) -> tuple[float, ...]:
    """n scales that differ."""
    return tuple(base * _CHANNELS[i % len(_CHANNELS)] for i in range(n))


def _length(x: TensorType, axis: int) -> int:
    return x.shape[axis] if x.rank else 0


def scales(x: TensorType, axis: int | None, base: float, **more: tuple[float, ...]) -> Classes:
    """Scales around `base`; those of channels first where an axis other than the last is chosen, since
    it means nothing to a tensor with one scale."""
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
    """Zero points of a tensor of that dtype: of 8-bit ones also both ends of the dtype."""
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
    """The axis of the channels."""
    return {"last": (-1,), "other": tuple(range(x.rank - 1))}


def check_parameter(t: TensorType, dtype: str, x: TensorType, axis: int | None, what: str) -> None:
    """Raises TypeRuleError unless t is a number, or one for each channel of x (axis None: a number)."""
    if t.dtype != dtype:
        raise TypeRuleError("%s is %s" % (what, t.dtype))
    if t.rank == 0:
        return
    if axis is None or t.rank > 1 or not x.rank or t.shape[0] != x.shape[normalize_axis(axis, x.rank)]:
        raise TypeRuleError("%s of shape %s for %s" % (what, t.shape, x))


def check_parameters(types: Sequence[TensorType], x: TensorType, axis: int | None) -> None:
    """A scale and a zero point, one after the other."""
    check_parameter(types[0], "float32", x, axis, "a scale")
    check_parameter(types[1], "int32", x, axis, "a zero point")


# --- qnn.quantize, qnn.dequantize --------------------------------------------------------------------


def _quantize_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return Operand(LEAD, x), scale(chosen["scale"]), zero_point(chosen["zero_point"])


def _quantize_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    check_parameters(types[1:], types[0], attrs["axis"])
    return (TensorType(types[0].shape, attrs["out_dtype"]),)


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
    infer=_quantize_infer,
    shapes=elementwise.SHAPES,
    accuracy="exact, +-1 step where the quotient (3 roundings, as of divide) is in the middle of two",
    operands=_quantize_operands,
    dtypes=("float32", "float16"),
    parameters=(
        Parameter("axis", axes),
        Parameter("out_dtype", {"int8": ("int8",), "uint8": ("uint8",), "int16": ("int16",)}),
        Parameter(
            "scale",
            # The last: what TFLite gives the results of softmax and sigmoid.
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
    """Powers of two first where a rounding is named: of their quotients many lie in the middle between
    two integers, the only place where a rounding tells."""
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


#: Of rank 0 TVM's build makes a tensor of rank 1 where the zero point is not 0, and refuses it.
#: Many elements second: the cases of the first parameters are made of these.
SHAPES = ((2, 3, 5), (2, 67), *(s for s in elementwise.SHAPES if s not in ((), (2, 3, 5), (2, 67))))

_REQUANTIZE = Operator(
    name="qnn.requantize",
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
    """Scale and zero point of a result of the first operand's dtype."""
    low, high = LIMITS[x.dtype]
    return {
        "odd": ((0.0523, low + 131),),
        "power_of_two": ((0.0625, low + 128),),
        "saturating": ((0.0113, low + 100),),
        "lowest": ((0.0823, low),),
        "highest": ((0.0823, high),),
    }


def _joined_parameters(x: TensorType, chosen: Attrs) -> Classes:
    """Scales and zero points of the operands, taken in turn."""
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


# Left out, since TVM 0.16's (the fork measured here) LLVM build runs none of them: the operators made
# of a table (qnn.sqrt, qnn.rsqrt, qnn.exp, qnn.erf, qnn.sigmoid, qnn.hardswish, qnn.tanh, qnn.log,
# qnn.abs), whose table it computes for another machine than the host; qnn.leaky_relu, whose Python
# function and C++ function take different operands; qnn.softmax and qnn.avg_pool2d, which it lacks.
OPERATORS: tuple[Operator, ...] = (
    _QUANTIZE,
    _DEQUANTIZE,
    _REQUANTIZE,
    Operator(
        name="qnn.concatenate",
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
