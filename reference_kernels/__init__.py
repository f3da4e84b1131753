"""One NumPy kernel per operator: the value in float64 and a bound on the error.

A kernel takes the operands (`Bounded`) and the node's attributes, and returns one `Bounded`, or a
tuple of them for an operator with several outputs.
"""

from __future__ import annotations

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
from .bounded import Bounded, exact
from .elementwise import Kernel

#: Kernels by TVM's operator name.
KERNELS: dict[str, Kernel] = {
    name: kernel
    for family in (
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
    )
    for name, kernel in family.KERNELS.items()
}

__all__ = ["KERNELS", "Bounded", "Kernel", "exact"]
