"""One NumPy kernel per operator: the value in float64 and a bound on the error.

A kernel takes the operands (`Bounded`) and the node's attributes, and returns one `Bounded`, or a
tuple of them for an operator with several outputs.
"""

from __future__ import annotations

from . import convolution, elementwise, matrix, nn, pooling, reduction, shape
from .bounded import Bounded, exact
from .elementwise import Kernel

#: Kernels by TVM's operator name.
KERNELS: dict[str, Kernel] = {
    **elementwise.KERNELS,
    **convolution.KERNELS,
    **matrix.KERNELS,
    **pooling.KERNELS,
    **nn.KERNELS,
    **reduction.KERNELS,
    **shape.KERNELS,
}

__all__ = ["KERNELS", "Bounded", "Kernel", "exact"]
