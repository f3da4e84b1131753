"""Sorting, and searching in sorted tensors."""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from .record import (
    FLOATS,
    FRESH,
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
    some,
)

#: The default's last axis is short, so that integers are seldom equal: equal elements have no
#: order.
_SHAPES = ((2, 5, 3), (7,), (1,), (6, 5), (2, 67), (2, 3, 4, 5), (2, 1, 6, 1, 2))
_ASCENDING = Parameter("is_ascend", {"yes": (True,), "no": (False,)})
_DESCENDING = Parameter("is_ascend", {"no": (False,), "yes": (True,)})
_DTYPE = Parameter("dtype", {"int32": ("int32",), "int64": ("int64",)})


def _axis(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    return {
        "last": (-1,),
        "first": (0,) if r > 1 else (),
        "inner": tuple(range(1, r - 1)),
        "positive": (r - 1,),
        "negative": tuple(range(-r, -1)),
    }


# --- sort, argsort, topk ---------------------------------------------------------------------


def _sort_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,) = types
    normalize_axis(attrs["axis"], x.rank)
    return (TensorType(x.shape, attrs.get("dtype", x.dtype)),)


def _sort_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.sort(args[0], axis=attrs["axis"], descending=not attrs["is_ascend"])


def _argsort_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    descending = not attrs["is_ascend"]
    return ns.argsort(args[0], axis=attrs["axis"], descending=descending, dtype=attrs["dtype"])


def _k(x: TensorType, chosen: Attrs) -> Classes:
    n = x.shape[chosen["axis"]]
    return {
        "one": (1,),
        "some": tuple(range(2, min(n, 5))),
        "whole": (n,) if n > 1 else (),
        "unlimited": (0, -1),
    }


def _topk_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,) = types
    axis, k = normalize_axis(attrs["axis"], x.rank), attrs["k"]
    if k > x.shape[axis]:
        raise TypeRuleError("%s has fewer than %d elements along axis %d" % (x, k, axis))
    shape = x.shape[:axis] + (k if k > 0 else x.shape[axis],) + x.shape[axis + 1 :]
    values, indices = TensorType(shape, x.dtype), TensorType(shape, attrs["dtype"])
    return {"both": (values, indices), "values": (values,), "indices": (indices,)}[attrs["ret_type"]]


def _topk_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    others = {name: attrs[name] for name in ("k", "axis", "ret_type", "dtype")}
    return ns.topk(args[0], largest=not attrs["is_ascend"], **others)


# --- searchsorted, bucketize -----------------------------------------------------------------


def _rising(count: int, dtype: str, distinct: bool) -> list[float]:
    """Returns `count` numbers in ascending order, within the default range of the dtype.

    distinct: whether integers must differ.
    """
    if dtype in FLOATS:
        steps = [-1.75 + 3.5 * i / max(count - 1, 1) for i in range(count)]
        return [round(s * 64) / 64 for s in steps]
    low, high = (-3, 3) if dtype in SIGNED else (0, 3)
    if distinct:
        return [float(low + i) for i in range(count)]
    return [float(low + i * (high - low) // max(count - 1, 1)) for i in range(count)]


def _sequence(x: TensorType, chosen: Attrs) -> Classes:
    """Returns shapes of the sequence: one sequence for each row of values, or one for all rows."""
    return {"rows": (x.shape[:-1] + (5,), x.shape[:-1] + (4,)), "shared": ((6,),)}


def _search_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    sequence = TensorType(tuple(chosen["sequence"]), x.dtype)
    n = sequence.shape[-1]
    data = _rising(n, x.dtype, False) * (sequence.size // n)
    return (Operand(FRESH, sequence, data=data), Operand(LEAD, x))


def _search_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    sequence, x = types
    if sequence.dtype != x.dtype:
        raise TypeRuleError("%s cannot be searched for %s: one dtype is needed" % (sequence, x))
    if sequence.rank != 1 and sequence.shape[:-1] != x.shape[:-1]:
        raise TypeRuleError("%s does not have a row for each row of %s" % (sequence, x))
    return (TensorType(x.shape, attrs["dtype"]),)


def _bucket_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    n = chosen["boundaries"]
    return (Operand(LEAD, x), Operand(FRESH, TensorType((n,), x.dtype), data=_rising(n, x.dtype, True)))


def _bucket_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, boundaries = types
    if boundaries.rank != 1 or boundaries.dtype != x.dtype:
        raise TypeRuleError("%s is not the type of the boundaries for %s" % (boundaries, x))
    return (TensorType(x.shape, "int32" if attrs["out_int32"] else "int64"),)


_RIGHT = Parameter("right", {"no": (False,), "yes": (True,)})

OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="sort",
        calls=("tvm.contrib.sort.sort",),
        infer=_sort_infer,
        shapes=_SHAPES,
        accuracy="exact",
        accepts=some,
        parameters=(Parameter("axis", _axis), _ASCENDING),
        dtypes=NUMBERS,
        relay=call("sort"),
        relax=Lowering("sort", _sort_relax),
    ),
    Operator(
        name="argsort",
        calls=("tvm.contrib.sort.argsort",),
        infer=_sort_infer,
        shapes=_SHAPES,
        accuracy="exact",
        accepts=some,
        parameters=(Parameter("axis", _axis), _ASCENDING, _DTYPE),
        dtypes=NUMBERS,
        relay=call("argsort"),
        relax=Lowering("argsort", _argsort_relax),
    ),
    Operator(
        name="topk",
        calls=("tvm.contrib.sort.topk",),
        infer=_topk_infer,
        shapes=_SHAPES,
        accuracy="exact",
        accepts=some,
        parameters=(
            Parameter("axis", _axis),
            Parameter("k", _k),
            Parameter("ret_type", {t: (t,) for t in ("both", "values", "indices")}),
            _DESCENDING,
            _DTYPE,
        ),
        dtypes=NUMBERS,
        relay=call("topk"),
        relax=Lowering("topk", _topk_relax),
    ),
    Operator(
        name="searchsorted",
        infer=_search_infer,
        shapes=((3, 4), (2, 7), (2, 3, 5), (1, 67)),
        accuracy="exact",
        accepts=lambda x: x.rank > 1 and x.size > 0,
        operands=_search_operands,
        parameters=(Parameter("sequence", _sequence, attribute=False), _RIGHT, _DTYPE),
        dtypes=NUMBERS,
        relay=call("searchsorted"),
    ),
    Operator(
        name="bucketize",
        infer=_bucket_infer,
        shapes=((2, 3, 5), (7,), (1,), (3, 67)),
        accuracy="exact",
        accepts=some,
        operands=_bucket_operands,
        parameters=(
            Parameter("boundaries", {"several": (4, 3), "one": (1,)}, attribute=False),
            Parameter("out_int32", {"no": (False,), "yes": (True,)}),
            _RIGHT,
        ),
        dtypes=NUMBERS,
        relax=call("bucketize"),
    ),
)
