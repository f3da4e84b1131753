"""Shapes like another tensor's, and the inverse of broadcasting."""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from .record import (
    ANY,
    DATA,
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
    broadcast,
    call,
    normalize_axis,
)

SHAPES = ((2, 3, 4), (7,), (1,), (6, 5), (4, 1), (2, 3, 4, 5), (2, 1, 3, 1, 2))


def _some(x: TensorType) -> bool:
    return x.rank > 0 and 0 < x.size <= 500


def _with_like(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return Operand(LEAD, x), Operand(DATA, TensorType(tuple(chosen["like"]), x.dtype))


def _same_dtype(types: Sequence[TensorType]) -> tuple[TensorType, TensorType]:
    x, like = types
    if x.dtype != like.dtype:
        raise TypeRuleError("%s and %s must have one dtype" % (x, like))
    return x, like


# --- slice_like ------------------------------------------------------------------------------


def _sliced_axes(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    return {
        "all": (None,),
        "one": tuple((i,) for i in range(r)) if r > 1 else (),
        "negative": ((-1,),),
        "several": ((r - 1, 0),) if r > 2 else (),
    }


def _smaller(x: TensorType, chosen: Attrs) -> Classes:
    s = x.shape
    named = range(x.rank) if chosen["axes"] is None else [a % x.rank for a in chosen["axes"]]
    less = tuple(max(1, d - 1 - i % 2) if i in named else d + 1 for i, d in enumerate(s))
    return {"less": (less,), "same": (s,), "ones": ((1,) * x.rank,)}


def _slice_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, like = _same_dtype(types)
    axes = range(x.rank) if attrs["axes"] is None else attrs["axes"]
    shape = list(x.shape)
    for axis in axes:
        axis = normalize_axis(axis, x.rank)
        if axis >= like.rank or like.shape[axis] > shape[axis]:
            raise TypeRuleError("%s cannot be cut from %s" % (like, x))
        shape[axis] = like.shape[axis]
    return (TensorType(tuple(shape), x.dtype),)


# --- reshape_like ----------------------------------------------------------------------------


def _lhs_begin(x: TensorType, chosen: Attrs) -> Classes:
    return {"start": (0,), "inner": tuple(range(1, x.rank))}


def _lhs_end(x: TensorType, chosen: Attrs) -> Classes:
    begin = chosen["lhs_begin"]
    return {"rest": (None,), "inner": tuple(range(begin + 1, x.rank))}


def _rhs_end(x: TensorType, chosen: Attrs) -> Classes:
    begin = chosen["rhs_begin"]
    return {"rest": (None,), "inner": (begin + 1, begin + 2)}


def _like_reshaped(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    """Returns x and a tensor whose axes rhs_begin to rhs_end replace the axes lhs_begin to lhs_end.

    They have the same number of elements, in two factors where possible. The other axes of the
    second operand have no effect.
    """
    size = TensorType(x.shape[chosen["lhs_begin"] : chosen["lhs_end"]], "").size
    begin, end = chosen["rhs_begin"], chosen["rhs_end"]
    factor = next((f for f in (2, 3, 5) if size % f == 0), 1)
    part = (size,) if end is not None and end - begin == 1 else (size // factor, factor)
    shape = (3, 2)[:begin] + part + ((2,) if end is not None else ())
    # Usually a constant: TVM 0.16 does not write the result if x is a constant and this is not.
    return Operand(LEAD, x), Operand(WEIGHT, TensorType(shape, x.dtype))


def _reshape_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, like = _same_dtype(types)
    end = x.rank if attrs["lhs_end"] is None else attrs["lhs_end"]
    part = like.shape[attrs["rhs_begin"] : attrs["rhs_end"]]
    shape = x.shape[: attrs["lhs_begin"]] + part + x.shape[end:]
    if TensorType(shape, "").size != x.size:
        raise TypeRuleError("%s cannot be reshaped like %s" % (x, like))
    return (TensorType(shape, x.dtype),)


# --- broadcast_to_like, collapse_sum ---------------------------------------------------------


def _wider(x: TensorType, chosen: Attrs) -> Classes:
    s = x.shape
    return {
        "same": (s,),
        "more_dims": ((2,) + s, (3, 1) + s),
        "widened": (tuple(3 if d == 1 else d for d in s),) if 1 in s else (),
    }


def _broadcast_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, like = _same_dtype(types)
    if broadcast(x.shape, like.shape) != like.shape:
        raise TypeRuleError("%s cannot be broadcast to %s" % (x, like))
    return (like,)


def _narrower(x: TensorType, chosen: Attrs) -> Classes:
    s, r = x.shape, x.rank
    return {
        "trailing": (s[1:], s[-1:]) if r > 1 else (),
        "inner_one": (s[:-1] + (1,),),
        "first_one": ((1,) + s[1:],) if r > 1 else (),
        "both": ((1,) + s[2:], s[1:-1] + (1,)) if r > 2 else (),
        "all_ones": ((1,) * r,),
        "same": (s,),
    }


def _collapsed(x: TensorType, shape: tuple[int, ...]) -> tuple[TensorType, ...]:
    if broadcast(x.shape, shape) != x.shape:
        raise TypeRuleError("%s cannot be the result of a broadcast of the shape %s" % (x, shape))
    return (TensorType(shape, x.dtype),)


def _collapse_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    return _collapsed(types[0], tuple(attrs["shape"]))


def _collapse_like_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, like = _same_dtype(types)
    return _collapsed(x, like.shape)


def _collapse_to(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.collapse_sum_to(args[0], tuple(attrs["shape"]))


_SUM = "sum of n: gamma(n), Higham, ASNA 2nd ed., section 4.2"
_LIKE = "like"

OPERATORS: tuple[Operator, ...] = (
    # Relax lacks slice_like, reshape_like and broadcast_to_like.
    Operator(
        name="slice_like",
        type_only=(1,),
        infer=_slice_infer,
        shapes=SHAPES,
        accuracy="exact",
        accepts=_some,
        operands=_with_like,
        dtypes=ANY,
        parameters=(Parameter("axes", _sliced_axes), Parameter(_LIKE, _smaller, attribute=False)),
        relay=call("slice_like"),
    ),
    Operator(
        name="reshape_like",
        type_only=(1,),
        infer=_reshape_infer,
        shapes=SHAPES,
        accuracy="exact",
        accepts=_some,
        operands=_like_reshaped,
        dtypes=ANY,
        parameters=(
            Parameter("lhs_begin", _lhs_begin),
            Parameter("lhs_end", _lhs_end),
            Parameter("rhs_begin", {"start": (0,), "inner": (1, 2)}),
            Parameter("rhs_end", _rhs_end),
        ),
        relay=call("reshape_like"),
    ),
    Operator(
        name="broadcast_to_like",
        type_only=(1,),
        infer=_broadcast_infer,
        shapes=SHAPES,
        accuracy="exact",
        accepts=_some,
        operands=_with_like,
        dtypes=ANY,
        parameters=(Parameter(_LIKE, _wider, attribute=False),),
        relay=call("broadcast_to_like"),
    ),
    Operator(
        name="collapse_sum_like",
        type_only=(1,),
        infer=_collapse_like_infer,
        shapes=SHAPES,
        accuracy=_SUM,
        accepts=_some,
        operands=_with_like,
        dtypes=NUMBERS,
        parameters=(Parameter(_LIKE, _narrower, attribute=False),),
        relay=call("collapse_sum_like"),
        relax=call("collapse_sum_like"),
    ),
    Operator(
        name="collapse_sum_to",
        infer=_collapse_infer,
        shapes=SHAPES,
        accuracy=_SUM,
        accepts=_some,
        dtypes=NUMBERS,
        parameters=(Parameter("shape", _narrower),),
        relay=Lowering("collapse_sum_to", _collapse_to),
        relax=Lowering("collapse_sum_to", _collapse_to),
    ),
)
