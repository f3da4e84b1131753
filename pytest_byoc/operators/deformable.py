"""Deformable convolution."""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence

from ..core.graph import TensorType
from .convolution import (
    conv_infer,
    image,
    is_image,
    laid_out,
    parameters,
    relay,
    weight_shape,
)
from .record import (
    FLOATS,
    FRESH,
    LEAD,
    WEIGHT,
    Attrs,
    Classes,
    Operand,
    Operator,
    Parameter,
    TypeRuleError,
)


def _one_group(x: TensorType, chosen: Attrs) -> Classes:
    # TVM's LLVM build supports no other number of groups.
    return {"one": (1,)}


def _deformable_groups(x: TensorType, chosen: Attrs) -> Classes:
    """Returns numbers of groups whose channels share their offsets: one, several, all."""
    _, c, _ = image(x, chosen["data_layout"])
    some = tuple(g for g in range(2, c) if c % g == 0)
    return {"one": (1,), "grouped": some, "each": (c,) if c > 1 else ()}


def _offset(x: TensorType, out: TensorType, attrs: Attrs) -> TensorType:
    """Returns the offsets' type: one down and one right per group of channels, tap and result."""
    layout = attrs["data_layout"]
    batch, _, sizes = image(out, layout)
    taps = attrs["kernel_size"][0] * attrs["kernel_size"][1]
    return TensorType(laid_out(batch, 2 * taps * attrs["deformable_groups"], sizes, layout), x.dtype)


def _operands(x: TensorType, chosen: Attrs) -> tuple[Operand, ...]:
    _, c, _ = image(x, chosen["data_layout"])
    shape = weight_shape(chosen["channels"], c, chosen["kernel_size"], chosen["kernel_layout"])
    w = TensorType(shape, x.dtype)
    (out,) = conv_infer([x, w], chosen)
    return Operand(LEAD, x), Operand(FRESH, _offset(x, out, chosen), -1.5, 1.5), Operand(WEIGHT, w)


def _infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    x, offset, w = types
    (out,) = conv_infer([x, w], attrs)
    if offset != _offset(x, out, attrs):
        raise TypeRuleError("the offsets %s do not fit a convolution of %s to %s" % (offset, x, out))
    return (out,)


OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="nn.deformable_conv2d",
        infer=_infer,
        shapes=((1, 2, 5, 6), (2, 4, 4, 3), (1, 3, 7, 5), (3, 1, 4, 5), (1, 6, 1, 3)),
        large=(1, 67, 5, 6),
        accuracy="6 roundings of each bilinear sample, 1 of its position, gamma(K) of the dot product",
        accepts=is_image(2),
        operands=_operands,
        dtypes=FLOATS,
        parameters=(
            *parameters(in_groups=_one_group),
            Parameter("deformable_groups", _deformable_groups),
        ),
        relay=replace(relay("deformable_conv2d"), optional=()),
    ),
)
