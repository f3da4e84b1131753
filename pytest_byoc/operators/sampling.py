"""Sampling of images at given places, and grids of such places."""

from __future__ import annotations

from typing import Any, Sequence

from ..core.graph import TensorType
from .record import (
    FRESH,
    LEAD,
    Attrs,
    Classes,
    Lowering,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
    call,
)


def _method(x: TensorType, chosen: Attrs) -> Classes:
    return {
        "bilinear": ("bilinear",),
        "nearest": ("nearest",),
        "bicubic": ("bicubic",) if x.rank == 4 else (),
    }


def _layout(x: TensorType, chosen: Attrs) -> Classes:
    return {"two_dims": ("NCHW",)} if x.rank == 4 else {"three_dims": ("NCDHW",)}


def _places(x: TensorType, chosen: Attrs) -> Classes:
    k = x.rank - 2
    return {"uneven": ((3, 4, 2)[:k], (5, 2, 3)[:k]), "one": ((1,) * k,)}


def _operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    shape = (x.shape[0], x.rank - 2) + chosen["places"]
    # Some coordinates lie outside of the image, which spans -1 to 1.
    return Operand(LEAD, x), Operand(FRESH, TensorType(shape, x.dtype), -1.4, 1.4)


def _infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, grid = types
    good = x.rank == len(attrs["layout"]) and grid.rank == x.rank and grid.dtype == x.dtype
    if not good or grid.shape[:2] != (x.shape[0], x.rank - 2):
        raise TypeRuleError("%s cannot be sampled at %s" % (x, grid))
    return (TensorType(x.shape[:2] + grid.shape[2:], x.dtype),)


def _affine_infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x = types[0]
    if x.rank != 3 or x.shape[1:] != (2, 3) or min(attrs["target_shape"]) < 2:
        raise TypeRuleError("a grid of the shape %s cannot be made from %s" % (attrs["target_shape"], x))
    return (TensorType((x.shape[0], 2) + tuple(attrs["target_shape"]), x.dtype),)


def _affine_relax(ns: Any, args: list[Any], attrs: Attrs, types: Sequence[TensorType]) -> Any:
    return ns.image.affine_grid(args[0], attrs["target_shape"], align_corners=True)


OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="image.grid_sample",
        infer=_infer,
        shapes=((2, 3, 5, 4), (1, 1, 3, 7), (1, 4, 2, 3), (2, 2, 3, 4, 5), (1, 3, 4, 2, 3)),
        accuracy="coordinates: 4 roundings, weights: 25 u, gamma(taps): see reference_kernels/sampling.py",
        accepts=lambda x: x.rank in (4, 5) and min(x.shape[2:]) > 1 and x.size <= 500,
        operands=_operands,
        parameters=(
            Parameter("layout", _layout),
            Parameter("places", _places, attribute=False),
            Parameter("method", _method),
            Parameter(
                "padding_mode", {"zeros": ("zeros",), "border": ("border",), "reflection": ("reflection",)}
            ),
            Parameter("align_corners", {"yes": (True,), "no": (False,)}),
        ),
        relay=call("image.grid_sample"),
        relax=call("image.grid_sample"),
    ),
    # Only with aligned corners and in two dimensions: Relay has no other affine_grid.
    Operator(
        name="image.affine_grid",
        infer=_affine_infer,
        shapes=((2, 2, 3), (1, 2, 3), (7, 2, 3)),
        accuracy="sum of three products: gamma(3), coordinates: 6 roundings and 1e-7",
        accepts=lambda x: x.rank == 3 and x.shape[1:] == (2, 3) and 0 < x.size <= 60,
        parameters=(
            Parameter("target_shape", {"uneven": ((4, 5), (3, 7)), "even": ((3, 3),), "least": ((2, 2),)}),
        ),
        relay=call("image.affine_grid"),
        relax=Lowering("image.affine_grid", _affine_relax),
    ),
)
