"""Records of TVM's operators: one record for each operator, one file for each family."""

from __future__ import annotations

from functools import lru_cache

from . import (
    arithmetic,
    attention,
    contraction,
    conversion,
    convolution,
    convolution_nd,
    deformable,
    elementwise,
    functions,
    indexing,
    logic,
    loss,
    matrix,
    nn,
    normalization,
    pooling,
    pooling_nd,
    quantized,
    quantized_arithmetic,
    rearranging,
    reduction,
    resize,
    sampling,
    scattering,
    shape,
    shape_like,
    sorting,
    statistics,
    transposed,
)
from .record import Operator

#: The modules of the families, in the order in which their operators are listed and tested.
FAMILIES = (
    elementwise,
    functions,
    arithmetic,
    logic,
    conversion,
    convolution,
    convolution_nd,
    transposed,
    deformable,
    matrix,
    contraction,
    attention,
    pooling,
    pooling_nd,
    nn,
    normalization,
    loss,
    reduction,
    statistics,
    shape,
    shape_like,
    rearranging,
    indexing,
    scattering,
    sorting,
    resize,
    sampling,
    quantized,
    quantized_arithmetic,
)

#: The record of every operator, by TVM's name, in a fixed order.
OPERATORS: dict[str, Operator] = {op.name: op for family in FAMILIES for op in family.OPERATORS}


@lru_cache(maxsize=None)
def within(name: str, ir: str | None) -> Operator:
    """Returns `Operator.within(ir)` of the named operator; raises KeyError if it is unknown."""
    return OPERATORS[name].within(ir)
