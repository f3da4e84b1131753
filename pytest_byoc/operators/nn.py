"""Bias, softmax, padding and flattening."""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from .record import (
    ANY,
    BIAS,
    FLOATS,
    LEAD,
    NUMBERS,
    SIGNED,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    call,
    normalize_axis,
    same_type_along,
    some,
)

SHAPES = ((2, 3, 5), (7,), (1,), (3, 67), (4, 1), (2, 3, 4, 5), (2, 1, 3, 1, 2))


# --- nn.bias_add -----------------------------------------------------------------------------


def _bias_axis(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    return {
        "channel": (1,) if r > 1 else (),
        "last": (-1,),
        "first": (0,),
        "negative": tuple(-i for i in range(2, r + 1)),
        "other": tuple(range(2, r)),
    }


def _bias_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return Operand(LEAD, x), Operand(BIAS, TensorType((x.shape[chosen["axis"]],), x.dtype))


def _bias_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, bias = types
    axis = normalize_axis(attrs["axis"], x.rank)
    if bias.shape != (x.shape[axis],) or bias.dtype != x.dtype:
        raise TypeRuleError("%s and the bias %s do not fit along axis %d" % (x, bias, attrs["axis"]))
    return (x,)


def _bias_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    x, bias = types
    after = x.rank - 1 - normalize_axis(attrs["axis"], x.rank)
    return ns.add(args[0], ns.reshape(args[1], bias.shape + (1,) * after) if after else args[1])


# --- nn.softmax, nn.log_softmax --------------------------------------------------------------


def _softmax_axis(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    return {
        "last": (-1, r - 1),
        "first": (0,) if r > 1 else (),
        "inner": tuple(range(1, r - 1)),
        "negative": tuple(-i for i in range(2, r + 1)),
    }


# --- nn.batch_flatten ------------------------------------------------------------------------


def _flatten_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    if x.rank < 1:
        raise TypeRuleError("a scalar cannot be flattened")
    return (TensorType((x.shape[0], TensorType(x.shape[1:], x.dtype).size), x.dtype),)


# --- nn.pad ----------------------------------------------------------------------------------


def _pad_width(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    none = ((0, 0),)
    if chosen["pad_mode"] == "reflect":
        # At most the axis's extent less one can be reflected.
        most = [d - 1 for d in x.shape]
        return {
            "symmetric": (tuple((min(1, m), min(1, m)) for m in most),),
            "none": (none * r,),
            "asymmetric": (tuple((min(i + 1, m), min(r - i, m)) for i, m in enumerate(most)),),
        }
    return {
        "symmetric": (((1, 1),) * r, none * (r - 1) + ((2, 2),)),
        "none": (none * r,),
        "asymmetric": (
            none * (r - 1) + ((1, 2),),
            ((3, 0),) + none * (r - 1),
            tuple((i, r - i) for i in range(r)),
        ),
        "spatial": (none * (r - 2) + ((1, 2), (2, 1)),) if r > 2 else (),
    }


def _pad_value(x: TensorType, chosen: Attrs) -> Classes:
    if chosen["pad_mode"] != "constant":
        return {"zero": (0,) if x.dtype not in FLOATS else (0.0,)}
    if x.dtype not in FLOATS:
        return {"zero": (0,), "other": (3, -2) if x.dtype in SIGNED else (3,)}
    # Representable in every float type: Relay rounds the value to float32 first.
    return {"zero": (0.0,), "other": (1.5, -2.0)}


def _pad_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    if len(attrs["pad_width"]) != x.rank:
        raise TypeRuleError("pad_width %s does not fit the rank %d" % (attrs["pad_width"], x.rank))
    if attrs["pad_mode"] == "reflect" and any(max(w) >= d for w, d in zip(attrs["pad_width"], x.shape)):
        raise TypeRuleError("%s is too small to be reflected by %s" % (x, attrs["pad_width"]))
    shape = tuple(d + a + b for d, (a, b) in zip(x.shape, attrs["pad_width"]))
    return (TensorType(shape, x.dtype),)


def _pad_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    width = [w for pair in attrs["pad_width"] for w in pair]
    mode = "replicate" if attrs["pad_mode"] == "edge" else attrs["pad_mode"]
    return ns.nn.pad(args[0], width, mode, float(attrs["pad_value"]))


OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="nn.bias_add",
        epilogue=True,
        follows_axis=True,
        addends=(1,),
        followed_by=("nn.relu", "clip", "sigmoid", "tanh"),
        infer=_bias_infer,
        shapes=SHAPES,
        accuracy="IEEE 754: correctly rounded, 1/2 ulp",
        accepts=some,
        operands=_bias_operands,
        parameters=(Parameter("axis", _bias_axis),),
        dtypes=NUMBERS,
        relay=call("nn.bias_add"),
        relax=Lowering("add", _bias_relax),
    ),
    Operator(
        name="nn.softmax",
        follows_axis=True,
        approximated=True,
        infer=same_type_along,
        shapes=SHAPES,
        accuracy="relative errors of exp and of the sum: see reference_kernels/nn.py",
        accepts=some,
        parameters=(Parameter("axis", _softmax_axis),),
        relay=call("nn.softmax"),
        relax=call("nn.softmax"),
    ),
    # TVM 0.9 compiles it for rank 2 and the last axis only, so this is the default case.
    Operator(
        name="nn.log_softmax",
        follows_axis=True,
        approximated=True,
        infer=same_type_along,
        shapes=((3, 5),) + SHAPES,
        accuracy="error of the sum, 4 ulp of the logarithm: see reference_kernels/nn.py",
        accepts=some,
        parameters=(Parameter("axis", _softmax_axis),),
        relay=call("nn.log_softmax"),
        relax=call("nn.log_softmax"),
    ),
    Operator(
        name="nn.batch_flatten",
        infer=_flatten_infer,
        # Relax does not accept vectors.
        shapes=tuple(s for s in SHAPES if len(s) > 1),
        accuracy="exact",
        accepts=lambda x: x.rank > 1 and x.size > 0,
        dtypes=ANY,
        relay=call("nn.batch_flatten"),
        relax=call("nn.batch_flatten"),
    ),
    Operator(
        name="nn.pad",
        infer=_pad_infer,
        shapes=SHAPES,
        accuracy="exact",
        accepts=some,
        # "circular" is left out, since only Relax has it.
        parameters=(
            Parameter("pad_mode", {"constant": ("constant",), "edge": ("edge",), "reflect": ("reflect",)}),
            Parameter("pad_width", _pad_width),
            Parameter("pad_value", _pad_value),
        ),
        dtypes=NUMBERS,
        relay=call("nn.pad"),
        relax=Lowering("nn.pad", _pad_relax),
    ),
)
