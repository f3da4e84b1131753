"""One NumPy kernel per operator: the value in float64 and a bound on the error.

A kernel takes the operands (`Bounded`) and the node's attributes. It returns one `Bounded`, or a
tuple of them for an operator with several outputs. Infinities and NaN are ordinary values here:
kernels run with NumPy's floating-point warnings off.
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

#: Names of the operators whose kernels accept integers with an error (in steps of a quantised
#: value): quantised operators, and operators that only move elements. For all other kernels such
#: an integer is made ambiguous.
_STEPS = {
    *quantized.KERNELS,
    *quantized_arithmetic.KERNELS,
    *("reshape", "transpose", "concatenate", "split", "squeeze", "expand_dims", "strided_slice"),
    *("broadcast_to", "nn.batch_flatten", "nn.pad"),
}


#: Names of the operators that only move or select elements. They leave subnormal numbers as they
#: are; the operands of all other kernels may be flushed to zero.
_MOVING = {
    *shape.KERNELS,
    *rearranging.KERNELS,
    *indexing.KERNELS,
    *("copy", "reinterpret", "where", "nn.batch_flatten", "nn.pad", "nn.dilate", "nn.dropout"),
    *("slice_like", "reshape_like", "broadcast_to_like", "matrix_set_diag", "reverse_sequence"),
}


def _guarded(name: str, kernel: Kernel) -> Kernel:
    """Wraps a kernel so that its operands are no more certain than implementations must keep them.

    Integers with an error become ambiguous unless the operator is in `_STEPS`; subnormal numbers
    may be zero unless it is in `_MOVING`.
    """

    def guarded(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded | tuple[Bounded, ...]:
        if name not in _STEPS:
            inputs = [decided(x) for x in inputs]
        if name not in _MOVING:
            inputs = [maybe_flushed(x) for x in inputs]
        with np.errstate(all="ignore"):
            return kernel(inputs, attrs)

    return guarded


#: The wrapped kernel of each operator, by TVM's operator name.
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
    """Returns an operator's results, each with the largest error of a target of that precision.

    op: TVM's name of the operator (Relay's, where the two IRs differ). inputs: the operands in
    order. attrs: the node's attributes. precision: the lower precision that the target declares;
    by default none. Returns one `Bounded` per output; an operator with one output gives a tuple of
    length 1.

    A declared `flush_subnormals` widens the operands before the kernel and the results after it.
    A declared `function_ulps` of this operator adds 2 u |result| for each ulp, and
    `function_errors` adds an absolute error, or steps to a quantised result.

    Raises KeyError for an operator without a kernel.
    """
    if precision.flush_subnormals:
        inputs = [flushed(x) for x in inputs]
    with computing(precision):
        outputs = KERNELS[op](inputs, attrs)
    results = outputs if isinstance(outputs, tuple) else (outputs,)
    if op in precision.function_ulps:
        results = tuple(less_accurate(y, precision.function_ulps[op]) for y in results)
    if op in precision.function_errors:
        results = tuple(less_accurate(y, 0.0, precision.function_errors[op]) for y in results)
    if precision.flush_subnormals:
        results = tuple(flushed(y) for y in results)
    return results


__all__ = ["FULL", "KERNELS", "Bounded", "Kernel", "Precision", "apply", "exact"]
