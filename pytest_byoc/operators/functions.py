"""Elementwise functions of one tensor beyond the commonest: trigonometry, roots, activations.

The approximations Relay makes at FastMath (fast_exp, fast_tanh, fast_erf, nn.fast_softmax) are left out:
TVM documents no error of theirs to judge them by. Relax 0.27 has no log2, log10.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from ..graph import TensorType
from .elementwise import SHAPES
from .record import (
    FLOATS,
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
    same_type,
)


def _function(
    name: str,
    accuracy: str,
    relay: Optional[Lowering] = None,
    relax: Optional[Lowering] = None,
    dtypes: Tuple[str, ...] = FLOATS,
    domain: Optional[Tuple[float, float]] = None,
    parameters: Tuple[Parameter, ...] = (),
    steep: bool = False,
) -> Operator:
    return Operator(
        name=name,
        infer=same_type,
        shapes=SHAPES,
        accuracy=accuracy,
        dtypes=dtypes,
        domain=domain,
        parameters=parameters,
        relay=relay,
        relax=relax,
        steep=steep,
    )


def _both(name: str, accuracy: str, **more: Any) -> Operator:
    return _function(name, accuracy, call(name), call(name), **more)


def _ulp(count: int) -> str:
    return "%d ulp: OpenCL C, relative error as ulps" % count


# --- what Relay writes with others -----------------------------------------------------------


def _silu_relay(ns: Any, args: List[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.multiply(args[0], ns.sigmoid(args[0]))


def _square_relay(ns: Any, args: List[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.multiply(args[0], args[0])


def _relu6_relay(ns: Any, args: List[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.clip(args[0], a_min=0.0, a_max=6.0)


# --- nn.prelu --------------------------------------------------------------------------------


def _channel_axis(x: TensorType, chosen: Attrs) -> Classes:
    # No negative axes: the type rule of Relay takes them, its LLVM build does not.
    return {
        "second": (1,) if x.rank > 1 else (),
        "first": (0,),
        "last": (x.rank - 1,) if x.rank > 2 else (),
    }


def _prelu_operands(x: TensorType, chosen: Attrs) -> Tuple[Operand, ...]:
    slopes = TensorType((x.shape[chosen["axis"]],), x.dtype)
    return (Operand(LEAD, x), Operand(WEIGHT, slopes))


def _prelu_infer(types: Sequence[TensorType], attrs: Attrs) -> Tuple[TensorType, ...]:
    x, alpha = types
    axis = normalize_axis(attrs["axis"], x.rank)
    if alpha != TensorType((x.shape[axis],), x.dtype):
        raise TypeRuleError("slopes %s for axis %d of %s" % (alpha, axis, x))
    return (x,)


OPERATORS: Tuple[Operator, ...] = (
    _both("erf", _ulp(16)),
    _both("rsqrt", _ulp(2), domain=(0.25, 4.0)),
    # Relay rounds halves away from zero, Relax to even.
    _both("round", "exact; halves either way"),
    _both("trunc", "exact"),
    _both("sign", "exact", dtypes=NUMBERS),
    _both("sin", _ulp(4)),
    _both("cos", _ulp(4)),
    _both("tan", _ulp(5)),
    _both("asin", _ulp(4), domain=(-1.0, 1.0)),
    _both("acos", _ulp(4), domain=(-1.0, 1.0)),
    _both("atan", _ulp(5)),
    _both("sinh", _ulp(4) + "; difference of exponentials: 3 ulp of 1.0", steep=True),
    _both("cosh", _ulp(4), steep=True),
    _both("asinh", _ulp(4)),
    _both("acosh", _ulp(4), domain=(1.0, 4.0)),
    _both("atanh", _ulp(5) + "; logarithm of a quotient: 3 ulp of 1.0", domain=(-0.9, 0.9)),
    _function("log2", _ulp(3), relay=call("log2"), domain=(0.25, 4.0)),
    _function("log10", _ulp(3), relay=call("log10"), domain=(0.25, 4.0)),
    _function(
        "square",
        "IEEE 754: correctly rounded, 1/2 ulp",
        relay=Lowering("multiply", _square_relay),
        relax=call("square"),
        dtypes=NUMBERS,
        steep=True,
    ),
    _function("nn.gelu", "x * (1 + erf) / 2 with erf to 16 ulp", relax=call("nn.gelu")),
    _function("nn.gelu_tanh", "x * (1 + tanh) / 2 with tanh to 5 ulp of 1.0", relax=call("nn.gelu_tanh")),
    _function(
        "nn.silu",
        "x * sigmoid(x) with the bound of sigmoid",
        relay=Lowering("multiply", _silu_relay),
        relax=call("nn.silu"),
    ),
    _function("nn.selu", "exp(x) - 1 with exp to 2 ulp: 4 ulp of 1.0", relax=call("nn.selu")),
    _function(
        "nn.softplus",
        "log(1 + exp) with either to 2 ulp: 3 ulp of 1.0",
        relax=call("nn.softplus"),
        parameters=(
            Parameter("beta", {"default": (1.0,), "odd": (0.31234567, 1.7654321)}),
            Parameter("threshold", {"default": (20.0,), "low": (1.0, 0.54321)}),
        ),
    ),
    _function(
        "nn.relu6",
        "exact",
        relay=Lowering("clip", _relu6_relay),
        relax=call("nn.relu6"),
        dtypes=NUMBERS,
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
