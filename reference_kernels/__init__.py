"""One NumPy kernel per operator: the value in float64 and a bound on the error.

A kernel takes the operands (`Bounded`) and the node's attributes, and returns one `Bounded`, or a
tuple of them for an operator with several outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from .bounded import Bounded, decided, exact
from .elementwise import Attrs, Kernel

#: Kernels that take integers with an error (in steps of a quantised value): those of quantised
#: operators, and those that move elements. To the others such an integer is not known at all.
_STEPS = {
    *quantized.KERNELS,
    *quantized_arithmetic.KERNELS,
    *("reshape", "transpose", "concatenate", "split", "squeeze", "expand_dims", "strided_slice"),
    *("broadcast_to", "nn.batch_flatten", "nn.pad"),
}


def _taking_whole_integers(kernel: Kernel) -> Kernel:
    def wrapped(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded | tuple[Bounded, ...]:
        return kernel([decided(x) for x in inputs], attrs)

    return wrapped


#: Kernels by TVM's operator name.
KERNELS: dict[str, Kernel] = {
    name: kernel if name in _STEPS else _taking_whole_integers(kernel)
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
        quantized_arithmetic,
    )
    for name, kernel in family.KERNELS.items()
}

__all__ = ["KERNELS", "Bounded", "Kernel", "exact"]
