"""Kernels of einsum, of NumPy's matmul and of outer products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .bounded import SMALLEST_NORMAL, Bounded, accumulated, contraction_operand, integer, unwrapped
from .elementwise import Attrs, Kernel, multiply
from .matrix import contracted


def _open(f: Callable[..., np.ndarray], inputs: Sequence[Bounded]) -> np.ndarray:
    """Returns the results that include infinity times an inexact element, which may be zero."""
    flags = np.zeros((), bool)
    for i, inexact in enumerate(inputs):
        for j, infinite in enumerate(inputs):
            if i != j:
                parts: list[np.ndarray] = [np.ones(o.shape) for o in inputs]
                parts[i], parts[j] = (inexact.error > 0) * 1.0, np.isinf(infinite.value) * 1.0
                flags = np.logical_or(flags, f(*parts) > 0)
    return flags


def einsum(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Sums n products of k factors each, in any order.

    The roundings are bounded by gamma(n + k - 2) times the sum of the products' magnitudes. For
    three factors with errors ea, eb, ec and A = |a| + ea, B = |b| + eb, the propagated error is the
    sum of ea * |b| * |c| + A * eb * |c| + A * B * ec; likewise for other k.
    """
    equation, dtype, k = attrs["equation"], inputs[0].dtype, len(inputs)
    if k > 1:
        inputs = [contraction_operand(o) for o in inputs]

    def f(*parts: np.ndarray) -> np.ndarray:
        return np.asarray(np.einsum(equation, *parts))

    ambiguous = np.zeros(f(*(o.value for o in inputs)).shape, bool)
    ones = [np.ones(o.shape) for o in inputs]
    for i, o in enumerate(inputs):
        if o.ambiguous.any():
            ambiguous |= f(*ones[:i], o.ambiguous.astype(np.float64), *ones[i + 1 :]) > 0
    values = [o.value for o in inputs]
    if not inputs[0].is_float:
        # Partial sums must not overflow either.
        largest = integer(unwrapped(lambda *v: f(*map(np.abs, v)), *values), ambiguous, dtype)
        return integer(unwrapped(f, *values), largest.ambiguous, dtype)
    value = f(*values)
    n = int(np.max(f(*ones), initial=0))
    magnitudes = [np.where(np.isfinite(o.value), np.abs(o.value), 0.0) for o in inputs]
    errors = [np.where(np.isfinite(o.error), o.error, 0.0) for o in inputs]
    most = [m + e for m, e in zip(magnitudes, errors, strict=True)]
    moved = np.zeros(value.shape)
    for i, e in enumerate(errors):
        if e.any():
            moved = moved + f(*most[:i], e, *magnitudes[i + 1 :])
    if not np.isfinite(value).all():
        ambiguous |= _open(f, inputs)
    if k > 2:
        # A partial product that underflows is multiplied by the remaining factors.
        moved = moved + SMALLEST_NORMAL[dtype] * f(*(np.maximum(m, 1.0) for m in most))
    # n + k - 2 is 0 where nothing is multiplied or added: nothing is rounded then.
    return accumulated(value, f(*magnitudes), moved, n + k - 2, ambiguous, dtype)


def matmul(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes NumPy's matmul: the product of vectors, matrices and stacks of matrices."""
    a, b = inputs
    return contracted(lambda p, q: np.asarray(np.matmul(p, q)), a, b, a.shape[-1])


def outer(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    a, b = inputs
    return multiply([a.map(lambda v: v.reshape(-1, 1)), b.map(lambda v: v.reshape(1, -1))], attrs)


KERNELS: dict[str, Kernel] = {"einsum": einsum, "matmul": matmul, "outer": outer}
