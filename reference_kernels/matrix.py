"""Kernels of matrix products, and the error bound that all sums of products share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from .bounded import Bounded, accumulated, accumulator, contraction_operand, integer, unwrapped
from .elementwise import Attrs, Kernel

Contraction = Callable[[np.ndarray, np.ndarray], np.ndarray]


def contracted(f: Contraction, a: Bounded, b: Bounded, terms: int, dtype: str | None = None) -> Bounded:
    """Returns f(a, b) for a bilinear f that sums `terms` products of elements of a and b.

    dtype: the dtype of the sum, by default that of the operands.

    The bound is gamma(terms) * f(|a|, |b|), whatever the order of summation (Higham, ASNA, 2nd ed.,
    section 3.1), plus the propagated errors f(|a|, eb) + f(ea, |b| + eb). It includes a declared
    lower precision of operands and sums.
    """
    dtype = dtype or a.dtype
    a, b = contraction_operand(a), contraction_operand(b)
    value = f(a.value, b.value)
    ambiguous = _touched(f, a.ambiguous, b.ambiguous, value.shape)
    if not a.is_float:
        # Partial sums must not overflow either.
        largest = integer(unwrapped(lambda p, q: f(np.abs(p), np.abs(q)), a.value, b.value), ambiguous, dtype)
        result = integer(unwrapped(f, a.value, b.value), largest.ambiguous, dtype)
        if a.error.any() or b.error.any():
            (va, ea), (vb, eb) = _finite(a), _finite(b)
            return replace(result, error=f(ea, vb + eb) + f(va, eb))
        return result
    (va, ea), (vb, eb) = _finite(a), _finite(b)
    propagated = f(ea, vb + eb) if ea.any() else np.zeros(value.shape)
    if eb.any():
        propagated = propagated + f(va, eb)
    if not np.isfinite(value).all():
        # Infinity times an interval that may contain zero gives infinity or NaN.
        open_ = f(np.isinf(a.value) * 1.0, eb) + f(ea, np.isinf(b.value) * 1.0) > 0
        ambiguous = ambiguous | open_
    sums = accumulator(dtype, a.dtype)
    return accumulated(value, f(va, vb), propagated, terms, ambiguous, dtype, sums=sums)


def _finite(x: Bounded) -> tuple[np.ndarray, np.ndarray]:
    """Returns magnitudes and errors, each 0 where it is not finite."""
    magnitude = np.where(np.isfinite(x.value), np.abs(x.value), 0.0)
    return magnitude, np.where(np.isfinite(x.error), x.error, 0.0)


def _touched(
    f: Contraction, a: np.ndarray, b: np.ndarray, shape: tuple[int, ...]
) -> np.ndarray:
    """Returns the results to which an ambiguous element contributes; a, b are the flags."""
    if not a.any() and not b.any():
        return np.zeros(shape, bool)
    ones_a, ones_b = np.ones(a.shape), np.ones(b.shape)
    return f(a.astype(np.float64), ones_b) + f(ones_a, b.astype(np.float64)) > 0


def _transposed(flag: bool, v: np.ndarray) -> np.ndarray:
    return np.swapaxes(v, -1, -2) if flag else v


def product(transpose_a: bool, transpose_b: bool) -> Contraction:
    """Builds the matrix product over the last two axes; NumPy broadcasts the others."""
    return lambda a, b: np.matmul(_transposed(transpose_a, a), _transposed(transpose_b, b))


def dense(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    a, b = inputs
    return contracted(lambda p, q: np.matmul(p, q.T), a, b, a.shape[-1], attrs.get("out_dtype"))


def matmul(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    a, b = inputs
    f = product(attrs["transpose_a"], attrs["transpose_b"])
    terms = a.shape[-2] if attrs["transpose_a"] else a.shape[-1]
    return contracted(f, a, b, terms, attrs.get("out_dtype"))


KERNELS: dict[str, Kernel] = {
    "nn.dense": dense,
    "nn.matmul": matmul,
    "nn.batch_matmul": matmul,
}
