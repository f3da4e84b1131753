"""Further elementwise functions of one tensor: trigonometry, roots, activations.

Relay's approximations for FastMath (fast_exp, fast_tanh, fast_erf, nn.fast_softmax) are left out,
since TVM documents no error bound for them. Relax 0.27 has no log2 and log10.
"""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from .elementwise import SHAPES, unary
from .interesting import ABOVE_ONE, PERIODIC, POSITIVE, ROUNDING, SATURATING, UP_TO_ONE, around
from .record import (
    LEAD,
    NUMBERS,
    WEIGHT,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    call,
    normalize_axis,
)


def _ulp(count: int) -> str:
    return "%d ulp: OpenCL C" % count


# --- operators that Relay expresses by others ------------------------------------------------


def _silu_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.multiply(args[0], ns.sigmoid(args[0]))


def _square_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.multiply(args[0], args[0])


def _relu6_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.clip(args[0], a_min=0.0, a_max=6.0)


# --- nn.prelu --------------------------------------------------------------------------------


def _channel_axis(x: TensorType, chosen: Attrs) -> Classes:
    # No negative axes: Relay's type rule accepts them, but its LLVM build fails.
    return {
        "second": (1,) if x.rank > 1 else (),
        "first": (0,),
        "last": (x.rank - 1,) if x.rank > 2 else (),
    }


def _prelu_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    slopes = TensorType((x.shape[chosen["axis"]],), x.dtype)
    return (Operand(LEAD, x), Operand(WEIGHT, slopes))


def _prelu_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, alpha = types
    axis = normalize_axis(attrs["axis"], x.rank)
    if alpha != TensorType((x.shape[axis],), x.dtype):
        raise TypeRuleError("the slopes %s do not fit axis %d of %s" % (alpha, axis, x))
    return (x,)


OPERATORS: tuple[Operator, ...] = (
    unary("erf", _ulp(16), approximated=True, interesting=SATURATING),
    unary("rsqrt", _ulp(2), domain=(0.25, 4.0), approximated=True, interesting=POSITIVE),
    # Relay rounds a half away from zero, Relax to even.
    unary("round", "exact; a half may be rounded either way", interesting=ROUNDING),
    unary("trunc", "exact", interesting=ROUNDING),
    unary("sign", "exact", dtypes=NUMBERS),
    unary("sin", _ulp(4), approximated=True, interesting=PERIODIC),
    unary("cos", _ulp(4), approximated=True, interesting=PERIODIC),
    unary("tan", _ulp(5), approximated=True, interesting=PERIODIC),
    unary("asin", _ulp(4), domain=(-1.0, 1.0), approximated=True, interesting=UP_TO_ONE),
    unary("acos", _ulp(4), domain=(-1.0, 1.0), approximated=True, interesting=UP_TO_ONE),
    unary("atan", _ulp(5), approximated=True, interesting=SATURATING),
    unary(
        "sinh",
        _ulp(4) + "; difference of exponentials: 3 ulp of 1.0",
        steep=True,
        approximated=True,
        interesting=SATURATING,
    ),
    unary("cosh", _ulp(4), steep=True, approximated=True, interesting=SATURATING),
    unary("asinh", _ulp(4), approximated=True, interesting=SATURATING),
    unary("acosh", _ulp(4), domain=(1.0, 4.0), approximated=True, interesting=ABOVE_ONE),
    unary(
        "atanh",
        _ulp(5) + "; logarithm of a quotient: 3 ulp of 1.0",
        domain=(-0.9, 0.9),
        approximated=True,
        interesting=UP_TO_ONE,
    ),
    unary("log2", _ulp(3), relax=None, domain=(0.25, 4.0), approximated=True, interesting=POSITIVE),
    unary("log10", _ulp(3), relax=None, domain=(0.25, 4.0), approximated=True, interesting=POSITIVE),
    unary(
        "square",
        "IEEE 754: correctly rounded, 1/2 ulp",
        relay=Lowering("multiply", _square_relay),
        dtypes=NUMBERS,
        steep=True,
    ),
    unary(
        "nn.gelu",
        "x * (1 + erf) / 2 with erf to 16 ulp",
        relay=None,
        approximated=True,
        interesting=SATURATING,
    ),
    unary(
        "nn.gelu_tanh",
        "x * (1 + tanh) / 2 with tanh to 5 ulp of 1.0",
        relay=None,
        approximated=True,
        interesting=SATURATING,
    ),
    unary(
        "nn.silu",
        "x * sigmoid(x) with the bound of sigmoid",
        relay=Lowering("multiply", _silu_relay),
        approximated=True,
        interesting=SATURATING,
    ),
    unary(
        "nn.selu",
        "exp(x) - 1 with exp to 2 ulp: 4 ulp of 1.0",
        relay=None,
        approximated=True,
        interesting=SATURATING,
    ),
    unary(
        "nn.softplus",
        "log(1 + exp) with exp and log to 2 ulp: 3 ulp of 1.0",
        relay=None,
        parameters=(
            Parameter("beta", {"default": (1.0,), "odd": (0.31234567, 1.7654321)}),
            Parameter("threshold", {"default": (20.0,), "low": (1.0, 0.54321)}),
        ),
        approximated=True,
        interesting=SATURATING,
    ),
    unary(
        "nn.relu6",
        "exact",
        relay=Lowering("clip", _relu6_relay),
        dtypes=NUMBERS,
        interesting=around(0.0, 6.0),
    ),
    Operator(
        name="nn.prelu",
        infer=_prelu_infer,
        shapes=tuple(s for s in SHAPES if s),
        accuracy="IEEE 754: correctly rounded, 1/2 ulp",
        accepts=lambda x: x.rank > 0,
        operands=_prelu_operands,
        parameters=(Parameter("axis", _channel_axis),),
        relay=call("nn.prelu"),
        relax=call("nn.prelu"),
    ),
)
