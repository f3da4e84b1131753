"""Shapes: reshaping, permuting, joining, cutting and broadcasting tensors."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any, Sequence

from ..core.graph import TensorType
from . import reshaping
from .axes import one_axis
from .record import (
    ANY,
    DATA,
    LEAD,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    among,
    broadcast,
    call,
    normalize_axis,
    some,
)

SHAPES = ((2, 3, 4), (7,), (1,), (6, 5), (4, 1), (2, 3, 4, 5), (2, 1, 6, 1, 2))
_EXACT = "exact"


# --- transpose -------------------------------------------------------------------------------


def _permutation(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    every = tuple(range(r))
    return {
        "reversed": (None,),
        "identity": (every,),
        "last_two": (every[:-2] + (r - 1, r - 2),) if r > 1 else (),
        "rotated": (every[1:] + every[:1], every[-1:] + every[:-1]) if r > 2 else (),
        "channels_last": ((0,) + every[2:] + (1,),) if r > 3 else (),
        # Two neighbours between the first axis and the last: heads of attention, shuffled channels.
        "inner": tuple(every[:i] + (i + 1, i) + every[i + 2 :] for i in range(1, r - 2)),
        "negative": (tuple(range(-1, -r - 1, -1)), tuple(range(-r, 0))) if r > 1 else (),
    }


def _transpose_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    if attrs["axes"] is None:
        return (TensorType(x.shape[::-1], x.dtype),)
    axes = [normalize_axis(a, x.rank) for a in attrs["axes"]]
    if sorted(axes) != list(range(x.rank)):
        raise TypeRuleError("the axes %s are no permutation of rank %d" % (attrs["axes"], x.rank))
    return (TensorType(tuple(x.shape[a] for a in axes), x.dtype),)


# --- concatenate -----------------------------------------------------------------------------


def _joined(x: TensorType, chosen: Attrs) -> Classes:
    """Returns the extents of the other operands along the axis, a tuple for each way to join."""
    n = x.shape[chosen["axis"]]
    return {
        "same": ((n,),),
        "same_thrice": ((n, n),),
        "uneven": ((n + 1,), (2 * n + 1,)),
        "uneven_three": ((1, n + 2),),
        "many": ((1, n, 2, 1, n + 1),),
        "alone": ((),),
    }


def _concatenate_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    axis = normalize_axis(chosen["axis"], x.rank)
    others = tuple(
        Operand(DATA, TensorType(x.shape[:axis] + (n,) + x.shape[axis + 1 :], x.dtype))
        for n in chosen["others"]
    )
    lead = Operand(LEAD, x)
    return others + (lead,) if chosen["place"] == "last" else (lead,) + others


def _concatenate_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    axis = normalize_axis(attrs["axis"], x.rank)
    around = x.shape[:axis], x.shape[axis + 1 :], x.dtype
    for t in types[1:]:
        if (t.shape[:axis], t.shape[axis + 1 :], t.dtype) != around:
            raise TypeRuleError("%s and %s cannot be joined along axis %d" % (x, t, axis))
    length = sum(t.shape[axis] for t in types)
    return (TensorType(x.shape[:axis] + (length,) + x.shape[axis + 1 :], x.dtype),)


def _concatenate_relay(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.concatenate(args, axis=attrs["axis"])


def _concatenate_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.concat(args, axis=attrs["axis"])


# --- split -----------------------------------------------------------------------------------

#: A long axis may be split only within this many elements of its ends, and around its middle.
_ENDS = 8


def _split_axis(x: TensorType, chosen: Attrs) -> Classes:
    """Returns the axes that have several elements."""
    classes = one_axis(x.rank)
    return {k: tuple(a for a in v if x.shape[a] > 1) for k, v in classes.items()}


def _places(n: int) -> Sequence[int]:
    """Returns the positions at which n elements may be split.

    These are all positions for a short axis; for a long one, those near its ends and its middle.
    """
    ends = {*range(1, _ENDS), *range(n // 2 - 1, n // 2 + 2), *range(n - _ENDS + 1, n)}
    return range(1, n) if n <= 3 * _ENDS else sorted(ends)


def _sections(x: TensorType, chosen: Attrs) -> Classes:
    n = x.shape[chosen["axis"]]
    return {
        "halves": (2,) if n % 2 == 0 else (),
        "sections": tuple(k for k in range(3, n + 1) if n % k == 0 and k <= 6),
        "index": tuple((i,) for i in range(1, n)),
        "indices": tuple(combinations(_places(n), 2)),
        "one_section": (1,),
    }


def _split_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, where = types[0], attrs["indices_or_sections"]
    axis = normalize_axis(attrs["axis"], x.rank)
    n = x.shape[axis]
    if isinstance(where, int):
        if where < 1 or n % where:
            raise TypeRuleError("%d elements cannot be split into %d sections" % (n, where))
        where = tuple(range(n // where, n, n // where))
    edges = (0,) + tuple(where) + (n,)
    if any(a >= b for a, b in zip(edges, edges[1:])):
        raise TypeRuleError("%d elements cannot be split at %s" % (n, where))
    return tuple(
        TensorType(x.shape[:axis] + (b - a,) + x.shape[axis + 1 :], x.dtype)
        for a, b in zip(edges, edges[1:])
    )


def _split(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    where = attrs["indices_or_sections"]
    where = where if isinstance(where, int) else list(where)
    return ns.split(args[0], where, axis=attrs["axis"])


# --- squeeze, expand_dims --------------------------------------------------------------------


def _squeezed(x: TensorType, chosen: Attrs) -> Classes:
    ones = tuple(i for i, d in enumerate(x.shape) if d == 1)
    return {
        "all": (None,),
        "one": tuple((i,) for i in ones),
        "negative": tuple((i - x.rank,) for i in ones),
        "several": (ones, ones[::-1]) if len(ones) > 1 else (),
    }


def _squeeze_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    if attrs["axis"] is None:
        return (TensorType(tuple(d for d in x.shape if d != 1), x.dtype),)
    axes = [normalize_axis(a, x.rank) for a in attrs["axis"]]
    if any(x.shape[a] != 1 for a in axes) or len(set(axes)) != len(axes):
        raise TypeRuleError("axes %s of %s cannot be squeezed" % (attrs["axis"], x))
    return (TensorType(tuple(d for i, d in enumerate(x.shape) if i not in axes), x.dtype),)


def _new_axis(x: TensorType, chosen: Attrs) -> Classes:
    return one_axis(x.rank + 1)


def _expand_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    axis = normalize_axis(attrs["axis"], x.rank + 1)
    return (TensorType(x.shape[:axis] + (1,) * attrs["num_newaxis"] + x.shape[axis:], x.dtype),)


def _expand_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    if attrs["num_newaxis"] == 1:
        return ns.expand_dims(args[0], attrs["axis"])
    axis = normalize_axis(attrs["axis"], types[0].rank + 1)
    return ns.expand_dims(args[0], list(range(axis, axis + attrs["num_newaxis"])))


# --- strided_slice ---------------------------------------------------------------------------


def _sliced_axes(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    return {
        "unnamed": (None,),
        "all": (tuple(range(r)),),
        "one": tuple((i,) for i in range(r)) if r > 1 else (),
        # Whole rows, which do not lie one behind the other.
        "inner": tuple((i,) for i in range(1, r - 1)),
        "several": tuple((i, j) for i in range(r) for j in range(i + 1, r)) if r > 2 else (),
        "disordered": (tuple(reversed(range(r))),) if r > 1 else (),
        "from_the_end": ((-1,), tuple(range(-r, 0))) if r > 1 else (),
    }


def _from_the_end(axes: Any, chosen: Attrs) -> bool:
    return axes is not None and any(a < 0 for a in axes)


def _dims(x: TensorType, chosen: Attrs) -> tuple[int, ...]:
    axes = range(x.rank) if chosen["axes"] is None else chosen["axes"]
    return tuple(x.shape[a] for a in axes)


def slice_strides(x: TensorType, chosen: Attrs) -> Classes:
    n = len(_dims(x, chosen))
    return {
        "unit": ((1,) * n,),
        "strided": ((2,) * n, (1,) * (n - 1) + (3,)),
        "negative": ((-1,) * n, (1,) * (n - 1) + (-2,)),
    }


def slice_begin(x: TensorType, chosen: Attrs) -> Classes:
    """Returns begins within the tensor, and begins beyond its edge, which are clipped to it.

    No begin leaves an empty slice.
    """
    dims, strides = _dims(x, chosen), chosen["strides"]
    start = tuple(0 if s > 0 else d - 1 for d, s in zip(dims, strides))
    inside = tuple(max(d // 3, min(d // 2, 1)) for d in dims)
    return {
        # The first class is the default, and it leaves out some elements.
        "inside": (inside,) if inside != start else (),
        "edge": (start,),
        "negative": (tuple(b - d for b, d in zip(inside, dims)), tuple(-d for d in dims)),
        "beyond": (tuple(-d - 2 if s > 0 else d + 2 for d, s in zip(dims, strides)),),
    }


def slice_end(x: TensorType, chosen: Attrs) -> Classes:
    """Returns ends that lie after the begin in the direction of the stride."""
    triples = list(zip(_dims(x, chosen), chosen["begin"], chosen["strides"]))
    begins = [slice(b, None, s).indices(d)[0] for d, b, s in triples]
    whole = tuple(d if s > 0 else -d - 1 for d, _, s in triples)
    inner = tuple(
        (d - 1 if d - 1 > b else d) if s > 0 else (0 if b > 0 else -d - 1)
        for (d, _, s), b in zip(triples, begins)
    )
    negative = tuple(
        (-1 if d - 1 > b else d) if s > 0 else (-d if b > 0 else -d - 1)
        for (d, _, s), b in zip(triples, begins)
    )
    return {
        "edge": (whole,),
        "inside": (inner,) if inner != whole else (),
        "negative": (negative,) if negative not in (whole, inner) else (),
        "beyond": (tuple(d + 3 if s > 0 else -d - 4 for d, _, s in triples),),
    }


def slice_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    axes = range(x.rank) if attrs["axes"] is None else attrs["axes"]
    if not len(axes) == len(attrs["begin"]) == len(attrs["end"]) == len(attrs["strides"]):
        raise TypeRuleError(
            "a slice of %d axes cannot be given by %d bounds" % (len(axes), len(attrs["begin"]))
        )
    shape = list(x.shape)
    for axis, begin, end, stride in zip(axes, attrs["begin"], attrs["end"], attrs["strides"]):
        axis = normalize_axis(axis, x.rank)
        shape[axis] = len(range(*slice(begin, end, stride).indices(x.shape[axis])))
        if not shape[axis]:
            raise TypeRuleError("the slice of axis %d is empty" % axis)
    return (TensorType(tuple(shape), x.dtype),)


def _slice_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    axes = attrs["axes"] if attrs["axes"] is not None else range(types[0].rank)
    strides = [list(attrs["strides"])] if "strides" in attrs else []
    return ns.strided_slice(args[0], list(axes), list(attrs["begin"]), list(attrs["end"]), *strides)


# --- broadcast_to ---------------------------------------------------------------------------


def _wider(x: TensorType, chosen: Attrs) -> Classes:
    s = x.shape
    ones = [i for i, d in enumerate(s) if d == 1]
    each = tuple(s[:i] + (3,) + s[i + 1 :] for i in ones)
    return {
        "same": (s,),
        "more_dims": ((2,) + s, (3, 1) + s),
        # All axes of one element, then each of them alone.
        "widened": tuple(dict.fromkeys((tuple(3 if d == 1 else d for d in s), *each))) if ones else (),
    }


def _broadcast_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    shape = tuple(attrs["shape"])
    if broadcast(types[0].shape, shape) != shape:
        raise TypeRuleError("%s cannot be broadcast to %s" % (types[0], shape))
    return (TensorType(shape, types[0].dtype),)


def _moving(name: str, infer: Any, relax: Any, *parameters: Parameter, **more: Any) -> Operator:
    fields = {
        "accuracy": _EXACT,
        "accepts": some,
        "dtypes": ANY,
        "relay": call(name),
        "shapes": SHAPES,
        **more,
    }
    return Operator(
        name=name,
        infer=infer,
        parameters=parameters,
        relax=relax,
        **fields,
    )


OPERATORS: tuple[Operator, ...] = (
    _moving(
        "reshape",
        reshaping.infer,
        Lowering("reshape", reshaping.relax),
        Parameter("newshape", reshaping.newshapes),
        following=reshaping.following,
    ),
    _moving("transpose", _transpose_infer, call("permute_dims"), Parameter("axes", _permutation)),
    _moving(
        "concatenate",
        _concatenate_infer,
        Lowering("concat", _concatenate_relax),
        Parameter("axis", lambda x, chosen: one_axis(x.rank)),
        Parameter("others", _joined, attribute=False),
        Parameter("place", {"first": ("first",), "last": ("last",)}, attribute=False),
        operands=_concatenate_operands,
        follows_axis=True,
        relay=Lowering("concatenate", _concatenate_relay),
    ),
    _moving(
        "split",
        _split_infer,
        # Relax returns no tuple for one section.
        Lowering("split", _split, lacks={"indices_or_sections": among(1)}),
        Parameter("axis", _split_axis),
        Parameter("indices_or_sections", _sections),
        relay=Lowering("split", _split),
        follows_axis=True,
        followed_by=("concatenate",),
        accepts=lambda x: any(d > 1 for d in x.shape) and x.size > 0,
        # The last shape can be split into query, key and value.
        shapes=(*(s for s in SHAPES if s != (1,)), (2, 4, 6)),
        tuple_result=True,
    ),
    _moving("squeeze", _squeeze_infer, call("squeeze"), Parameter("axis", _squeezed)),
    _moving(
        "expand_dims",
        _expand_infer,
        Lowering("expand_dims", _expand_relax),
        Parameter("axis", _new_axis),
        Parameter("num_newaxis", {"one": (1,), "several": (2, 3)}),
    ),
    _moving(
        "strided_slice",
        slice_infer,
        Lowering("strided_slice", _slice_relax, optional=("strides",)),
        Parameter("axes", _sliced_axes),
        Parameter("strides", slice_strides),
        Parameter("begin", slice_begin),
        Parameter("end", slice_end),
        # A slice of the first shape keeps several elements of each axis, even if it begins and ends inside.
        shapes=((4, 5, 7), *SHAPES),
        # TVM 0.16 does not normalise negative axes.
        relay=replace(call("strided_slice"), lacks={"axes": _from_the_end}, optional=("strides",)),
    ),
    _moving("broadcast_to", _broadcast_infer, call("broadcast_to"), Parameter("shape", _wider)),
)
