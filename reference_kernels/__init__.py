"""One NumPy kernel per operator: the value in float64 and a bound on the error.

A kernel takes the operands (`Bounded`) and the node's attributes, and returns one `Bounded`, or a
tuple of them for an operator with several outputs. What NumPy warns of (infinities, NaN) is part of the
values: kernels are called where it does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
from .bounded import Bounded, decided, exact, flushed, less_accurate, maybe_flushed
from .elementwise import Attrs, Kernel
from .precision import FULL, Precision, computing

#: Kernels that take integers with an error (in steps of a quantised value): those of quantised
#: operators, and those that move elements. To the others such an integer is not known at all.
_STEPS = {
    *quantized.KERNELS,
    *quantized_arithmetic.KERNELS,
    *("reshape", "transpose", "concatenate", "split", "squeeze", "expand_dims", "strided_slice"),
    *("broadcast_to", "nn.batch_flatten", "nn.pad"),
}


#: Kernels of operators that compute nothing: not even a subnormal number is changed by them.
_MOVING = {
    *shape.KERNELS,
    *rearranging.KERNELS,
    *indexing.KERNELS,
    *("copy", "reinterpret", "where", "nn.batch_flatten", "nn.pad", "nn.dilate", "nn.dropout"),
    *("slice_like", "reshape_like", "broadcast_to_like", "matrix_set_diag", "reverse_sequence"),
}


def _guarded(name: str, kernel: Kernel) -> Kernel:
    """The kernel, told no more of its operands than may be assumed."""

    def guarded(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded | tuple[Bounded, ...]:
        if name not in _STEPS:
            inputs = [decided(x) for x in inputs]
        if name not in _MOVING:
            inputs = [maybe_flushed(x) for x in inputs]
        with np.errstate(all="ignore"):
            return kernel(inputs, attrs)

    return guarded


#: Kernels by TVM's operator name.
KERNELS: dict[str, Kernel] = {
    name: _guarded(name, kernel)
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


def apply(
    op: str, inputs: Sequence[Bounded], attrs: Attrs, precision: Precision = FULL
) -> tuple[Bounded, ...]:
    """An operator's results, computed by a target of that precision.

    Raises KeyError for an operator without a kernel.
    """
    if precision.flush_subnormals:
        inputs = [flushed(x) for x in inputs]
    with computing(precision):
        found = KERNELS[op](inputs, attrs)
    results = found if isinstance(found, tuple) else (found,)
    if op in precision.function_ulps:
        results = tuple(less_accurate(y, precision.function_ulps[op]) for y in results)
    if op in precision.function_errors:
        results = tuple(less_accurate(y, 0.0, precision.function_errors[op]) for y in results)
    if precision.flush_subnormals:
        results = tuple(flushed(y) for y in results)
    return results


__all__ = ["FULL", "KERNELS", "Bounded", "Kernel", "Precision", "apply", "exact"]
