"""What TVM's operators are: one record each, one file per family."""

from __future__ import annotations

from typing import Dict

from . import convolution, elementwise, matrix, nn, pooling, reduction, shape
from .record import Operator

#: Every operator known, by TVM's name, in a fixed order.
OPERATORS: Dict[str, Operator] = {
    op.name: op
    for family in (elementwise, convolution, matrix, pooling, nn, reduction, shape)
    for op in family.OPERATORS
}
