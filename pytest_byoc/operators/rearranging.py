"""Rearranging: tiles, flips, stacks, windows, and moves of spatial blocks to channels or batches."""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from . import blocks, layouts
from .axes import one_axis
from .record import (
    ANY,
    DATA,
    FLOATS,
    LEAD,
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

SHAPES = ((2, 3, 4), (7,), (1,), (6, 5), (4, 1), (2, 3, 4, 5), (2, 1, 3, 1, 2), (2, 67))
_EXACT = "exact"


_AXIS = Parameter("axis", lambda x, chosen: one_axis(x.rank))


def _fill(x: TensorType, chosen: Attrs) -> Classes:
    """Returns values to pad with."""
    if x.dtype in FLOATS:
        return {"zero": (0.0,), "other": (1.5, -2.0)}
    return {"zero": (0.0,), "other": (3.0, -2.0) if x.dtype in SIGNED else (1.0,)}


# --- tile, repeat, stack, reverse ------------------------------------------------------------


def _reps(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    return {
        "last": ((3,),) if r > 1 else (),
        "each": (tuple(2 + (i + r) % 2 for i in range(r)),),
        "first": ((2,) + (1,) * (r - 1),) if r > 1 else (),
        "ones": ((1,) * r,),
        "more_dims": ((2,) + (1,) * r, (2, 1) + (3,) * r if r < 3 else (2,) * (r + 1)),
    }


def _tile_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, reps = types[0], tuple(attrs["reps"])
    rank = max(x.rank, len(reps))
    shape = (1,) * (rank - x.rank) + x.shape
    reps = (1,) * (rank - len(reps)) + reps
    return (TensorType(tuple(d * n for d, n in zip(shape, reps)), x.dtype),)


def _repeat_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    axis = normalize_axis(attrs["axis"], x.rank)
    shape = x.shape[:axis] + (x.shape[axis] * attrs["repeats"],) + x.shape[axis + 1 :]
    return (TensorType(shape, x.dtype),)


def _tile_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.tile(args[0], list(attrs["reps"]))


def _stack_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    others = (Operand(DATA, x),) * (chosen["count"] - 1)
    lead = Operand(LEAD, x)
    return others + (lead,) if chosen["place"] == "last" else (lead,) + others


def _stack_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    if any(t != x for t in types):
        raise TypeRuleError("the operands %s must have one type to be stacked" % (types,))
    axis = normalize_axis(attrs["axis"], x.rank + 1)
    return (TensorType(x.shape[:axis] + (len(types),) + x.shape[axis:], x.dtype),)


def _stack(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.stack(args, axis=attrs["axis"])


def _reverse_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    normalize_axis(attrs["axis"], types[0].rank)
    return (types[0],)


# --- mirror_pad, triu, tril ------------------------------------------------------------------


def _mirrored(x: TensorType, chosen: Attrs) -> Classes:
    """Returns paddings within the mirror's limit: the axis's extent, less one for REFLECT."""
    r, less = x.rank, 1 if chosen["mode"] == "REFLECT" else 0
    most = [d - less for d in x.shape]
    none = ((0, 0),)
    return {
        "even": (tuple((min(1, m), min(1, m)) for m in most),),
        "none": (none * r,),
        "last": (none * (r - 1) + ((min(1, most[-1]), min(2, most[-1])),),),
        "uneven": (tuple((min(i, m), min(r - i, m)) for i, m in enumerate(most)),),
        "whole": (tuple((m if m < 4 else 1, 0) for m in most),),
    }


def _mirror_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, less = types[0], 1 if attrs["mode"] == "REFLECT" else 0
    width = attrs["pad_width"]
    if len(width) != x.rank or any(max(w) > d - less for w, d in zip(width, x.shape)):
        raise TypeRuleError("%s is too small to be mirrored by %s, or has another rank" % (x, width))
    return (TensorType(tuple(d + a + b for d, (a, b) in zip(x.shape, width)), x.dtype),)


def _diagonals(x: TensorType, chosen: Attrs) -> Classes:
    rows, columns = x.shape[-2:]
    return {
        "main": (0,),
        "above": (1, columns - 1) if columns > 1 else (),
        "below": (-1, 1 - rows) if rows > 1 else (),
        "beyond": (columns + 2, -rows - 2),
    }


def _triangle_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    if types[0].rank < 2:
        raise TypeRuleError("%s has no triangle: rank 2 or more is needed" % types[0])
    return (types[0],)


# --- meshgrid --------------------------------------------------------------------------------


def _mesh_others(x: TensorType, chosen: Attrs) -> Classes:
    n = x.shape[0]
    return {"two": ((3,),), "several": ((3, 2), (1, 4, 2)), "equal": ((n,), (n, 2)) if n < 9 else ()}


def _indexing(x: TensorType, chosen: Attrs) -> Classes:
    # TVM 0.27 infers the type of "ij" for "xy", so "xy" is used only where the types are equal.
    return {"ij": ("ij",), "xy": ("xy",) if chosen["others"][0] == x.shape[0] else ()}


def _mesh_operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    return (Operand(LEAD, x),) + tuple(
        Operand(DATA, TensorType((n,), x.dtype)) for n in chosen["others"]
    )


def _mesh_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    if any(t.rank != 1 or t.dtype != types[0].dtype for t in types):
        raise TypeRuleError("the operands %s must be vectors of one dtype" % (types,))
    shape = tuple(t.shape[0] for t in types)
    if attrs["indexing"] == "xy" and len(shape) > 1:
        shape = (shape[1], shape[0]) + shape[2:]
    return tuple(TensorType(shape, t.dtype) for t in types)


def _mesh(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.meshgrid(args, indexing=attrs["indexing"])


# --- sliding_window --------------------------------------------------------------------------


def _window_axes(x: TensorType, chosen: Attrs) -> Classes:
    return {k: v for k, v in one_axis(x.rank).items() if k not in ("minus_one", "negative")}


def _windows(x: TensorType, chosen: Attrs) -> Classes:
    dims = x.shape[normalize_axis(chosen["axis"], x.rank) :]
    return {
        "inside": (tuple((d + 1) // 2 for d in dims),),
        "whole": (dims,),
        "ones": ((1,) * len(dims),),
        "uneven": (tuple(min(d, 1 + i % 3) for i, d in enumerate(dims)),),
    }


def _window_strides(x: TensorType, chosen: Attrs) -> Classes:
    n = len(chosen["window_shape"])
    uneven = tuple(1 + i % 3 for i in range(n, 0, -1))
    return {"unit": ((1,) * n,), "strided": ((2,) * n,), "uneven": (uneven,)}


def _window_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, window = types[0], tuple(attrs["window_shape"])
    axis = normalize_axis(attrs["axis"], x.rank)
    dims = x.shape[axis:]
    if len(dims) != len(window) or any(w > d for w, d in zip(window, dims)):
        raise TypeRuleError("a window of the shape %s does not fit %s" % (window, x))
    steps = tuple((d - w) // s + 1 for d, w, s in zip(dims, window, attrs["strides"]))
    return (TensorType(x.shape[:axis] + steps + window, x.dtype),)


def _flat_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    return (TensorType((types[0].size,), types[0].dtype),)


def _moving(
    name: str, infer: Any, *parameters: Parameter, relax: Lowering | None = None, **more: Any
) -> Operator:
    fields: dict[str, Any] = {
        "accuracy": _EXACT,
        "accepts": some,
        "dtypes": ANY,
        "relay": call(name),
        "shapes": SHAPES,
        **more,
    }
    return Operator(name=name, infer=infer, parameters=parameters, relax=relax, **fields)


def _triangle(name: str) -> Operator:
    return _moving(
        name,
        _triangle_infer,
        Parameter("k", _diagonals),
        shapes=((4, 5), (5, 3), (1, 1), (2, 3, 4), (1, 7), (2, 1, 3, 3)),
        accepts=lambda x: x.rank > 1 and x.size > 0,
        relay=None,
        relax=call(name),
    )


OPERATORS: tuple[Operator, ...] = (
    # Relax's layout_transform needs a function of indices, which a lowering cannot pass.
    _moving(
        "layout_transform",
        layouts.infer,
        Parameter("src_layout", layouts.sources),
        Parameter("dst_layout", layouts.targets),
        shapes=((2, 4, 3, 6), (1, 6, 5, 7), (3, 5, 4), (2, 3, 4, 5, 2), (3, 1, 2, 4), (1, 2, 3, 5, 4)),
        accepts=lambda x: 3 <= x.rank <= 5 and x.size > 0,
    ),
    _moving(
        "nn.depth_to_space",
        blocks.to_space_infer,
        *blocks.block_parameters(blocks.deep),
        Parameter("mode", {"dcr": ("DCR",), "crd": ("CRD",)}),
        shapes=((1, 8, 2, 3), (2, 4, 3, 5), (2, 3, 5, 8), (1, 18, 1, 2), (2, 1, 3, 36), (1, 4, 7, 4)),
        accepts=blocks.takes_blocks(blocks.deep),
    ),
    _moving(
        "nn.space_to_depth",
        blocks.to_depth_infer,
        *blocks.block_parameters(blocks.spacious),
        shapes=((1, 2, 4, 6), (2, 3, 6, 2), (2, 4, 6, 3), (1, 1, 3, 9), (1, 9, 6, 2), (1, 5, 2, 14)),
        large=(1, 2, 4, 1018),
        accepts=blocks.takes_blocks(blocks.spacious),
    ),
    _moving(
        "nn.space_to_batch_nd",
        blocks.to_batch_infer,
        Parameter("block_shape", blocks.batch_blocks),
        Parameter("paddings", blocks.paddings),
        Parameter("pad_value", _fill),
        shapes=((2, 3, 5, 2), (1, 4, 6, 3), (3, 7), (1, 4, 6), (2, 2, 3, 4, 2)),
        accepts=lambda x: x.rank > 1 and 0 < x.size <= 500,
    ),
    _moving(
        "nn.batch_to_space_nd",
        blocks.from_batch_infer,
        Parameter("block_shape", blocks.batches),
        Parameter("crops", blocks.crops),
        shapes=((4, 3, 5, 2), (6, 2, 3, 4), (6, 7), (12, 2, 3), (8, 2, 3, 4, 2)),
        accepts=lambda x: x.size > 0 and x.rank > 1 and any(len(v) for v in blocks.batches(x, {}).values()),
    ),
    _moving(
        "tile",
        _tile_infer,
        Parameter("reps", _reps),
        relax=Lowering("tile", _tile_relax),
        accepts=lambda x: 0 < x.rank < 6 and 0 < x.size <= 250,
    ),
    # Only along an axis: Relay has no other repeat.
    _moving(
        "repeat",
        _repeat_infer,
        Parameter("repeats", {"two": (2,), "once": (1,), "more": (3, 5)}),
        _AXIS,
        relax=call("repeat"),
        accepts=lambda x: x.rank > 0 and 0 < x.size <= 1000,
    ),
    _moving(
        "stack",
        _stack_infer,
        Parameter("axis", lambda x, chosen: one_axis(x.rank + 1)),
        Parameter("count", {"two": (2,), "alone": (1,), "several": (3, 4)}, attribute=False),
        Parameter("place", {"first": ("first",), "last": ("last",)}, attribute=False),
        operands=_stack_operands,
        relay=Lowering("stack", _stack),
        relax=Lowering("stack", _stack),
        shapes=SHAPES + ((),),
        accepts=lambda x: x.size > 0,
    ),
    _moving("reverse", _reverse_infer, _AXIS, relax=call("flip")),
    # In Relax, nn.pad does this.
    _moving(
        "nn.mirror_pad",
        _mirror_infer,
        Parameter("mode", {"symmetric": ("SYMMETRIC",), "reflect": ("REFLECT",)}),
        Parameter("pad_width", _mirrored),
        accepts=lambda x: x.rank > 0 and 0 < x.size <= 250,
    ),
    # Relay's trilu is left out: TVM 0.16 cannot build it with an elementwise operator behind it
    # ("variables [i3] are used, but are not passed in as API arguments").
    _triangle("triu"),
    _triangle("tril"),
    # At least two vectors, since Relax returns no tuple for one.
    _moving(
        "meshgrid",
        _mesh_infer,
        Parameter("others", _mesh_others, attribute=False),
        Parameter("indexing", _indexing),
        operands=_mesh_operands,
        relay=Lowering("meshgrid", _mesh),
        relax=Lowering("meshgrid", _mesh),
        shapes=((5,), (3,), (1,), (67,)),
        accepts=lambda x: x.rank == 1 and 0 < x.size <= 200,
        tuple_result=True,
    ),
    _moving(
        "sliding_window",
        _window_infer,
        Parameter("axis", _window_axes),
        Parameter("window_shape", _windows),
        Parameter("strides", _window_strides),
        accepts=lambda x: 0 < x.rank < 5 and 0 < x.size <= 250,
        shapes=((2, 5, 7), (7,), (1,), (6, 5), (4, 1), (2, 3, 4, 5), (2, 67)),
    ),
    _moving("flatten", _flat_infer, relay=None, relax=call("flatten"), accepts=lambda x: x.size > 0),
)
