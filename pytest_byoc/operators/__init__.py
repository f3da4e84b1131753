"""What TVM's operators are: one record each, one file per family."""

from __future__ import annotations

from typing import Dict

from . import (
    arithmetic,
    attention,
    conversion,
    convolution,
    convolution_nd,
    elementwise,
    functions,
    indexing,
    logic,
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
    shape,
    statistics,
    transposed,
)
from .record import Operator

#: Families, in the order in which they are listed and tested.
FAMILIES = (
    elementwise,
    functions,
    arithmetic,
    logic,
    conversion,
    convolution,
    convolution_nd,
    transposed,
    matrix,
    attention,
    pooling,
    pooling_nd,
    nn,
    normalization,
    reduction,
    statistics,
    shape,
    rearranging,
    indexing,
    resize,
    quantized,
    quantized_arithmetic,
)

#: Every operator known, by TVM's name, in a fixed order.
OPERATORS: Dict[str, Operator] = {op.name: op for family in FAMILIES for op in family.OPERATORS}
