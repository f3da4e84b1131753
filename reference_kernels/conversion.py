"""Kernels of conversions between dtypes, copies, and tensors filled in the shape of another."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from .bounded import SMALLEST_NORMAL, UNIT_ROUNDOFF, Bounded, integer, rounded
from .elementwise import Attrs, Kernel


def _numpy(dtype: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def _represents(wide: str, narrow: str) -> bool:
    """Returns whether the float dtype `wide` holds every normal number of `narrow`."""
    return UNIT_ROUNDOFF[wide] <= UNIT_ROUNDOFF[narrow] and SMALLEST_NORMAL[wide] <= SMALLEST_NORMAL[narrow]


def _to_float(x: Bounded, dtype: str) -> Bounded:
    """Converts to a float dtype; values that the dtype does not hold are rounded.

    An implementation may round twice, by way of float32.
    """
    value = x.value.astype(np.float64)
    if x.is_float and _represents(dtype, x.dtype):
        # Nothing is rounded, but subnormals may be flushed to zero.
        tiny = np.where(np.abs(value) - x.error < SMALLEST_NORMAL[x.dtype], SMALLEST_NORMAL[x.dtype], 0.0)
        tiny = np.where((value == 0) & (x.error == 0), 0.0, tiny)
        return Bounded(value, x.error + tiny, x.ambiguous, dtype)
    y = rounded(value, x.error, x.ambiguous, dtype, 1.01)
    fits = value.astype(_numpy(dtype)).astype(np.float64) == x.value
    fits &= (np.abs(value) >= SMALLEST_NORMAL[dtype]) | (value == 0)
    unchanged = fits & (x.error == 0) & ~x.ambiguous
    return Bounded(y.value, np.where(unchanged, 0.0, y.error), y.ambiguous & ~unchanged, dtype)


def _to_bool(x: Bounded) -> Bounded:
    """Returns whether each element is not zero; NaN gives True.

    The result is ambiguous where the interval of an inexact element contains zero, and for elements
    that may be flushed to zero.
    """
    unknown = x.ambiguous
    if x.is_float:
        near = (np.abs(x.value) <= x.error) & (x.error > 0)
        subnormal = (x.value != 0) & (np.abs(x.value) - x.error < SMALLEST_NORMAL[x.dtype])
        unknown = unknown | near | subnormal
    return Bounded(x.value != 0, np.zeros(x.shape), np.asarray(unknown), "bool")


def converted(x: Bounded, dtype: str) -> Bounded:
    """Converts a tensor to another dtype.

    To a float dtype, values that are not representable are rounded. From float to integer, values
    are truncated towards zero; the result is ambiguous where the interval crosses an integer, for
    NaN, and beyond the dtype's range. From integer to unsigned integer, values wrap modulo 2^n
    (C11, 6.3.1.3); to another integer dtype, values out of range are ambiguous.
    """
    if dtype == x.dtype:
        return x
    if dtype in UNIT_ROUNDOFF:
        return _to_float(x, dtype)
    if dtype == "bool":
        return _to_bool(x)
    if not x.is_float:
        wraps = dtype.startswith("uint")
        value = np.mod(x.value, np.iinfo(dtype).max + 1) if wraps else x.value
        return integer(value, x.ambiguous, dtype)
    info = np.iinfo(dtype)
    low, high = np.trunc(x.low), np.trunc(x.high)
    # float64 does not hold the largest int64, but the number above it.
    unknown = ~((low == high) & (low >= info.min) & (high < float(info.max) + 1))
    value = np.where(unknown, 0.0, np.trunc(np.where(unknown, 0.0, x.value)))
    return integer(value, x.ambiguous | unknown, dtype)


def cast(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    return converted(inputs[0], attrs["dtype"])


def cast_like(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Converts to the dtype of the second operand, whose elements have no effect."""
    x, like = inputs
    return converted(x, like.dtype)


def reinterpret(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Reads the same bits as another dtype of the same width.

    Elements with an error, and NaN, are ambiguous.
    """
    (x,) = inputs
    target = np.dtype(attrs["dtype"])
    value = x.value.astype(x.dtype).view(target)
    # The bits may be those of a signalling NaN.
    wide = value.astype(np.float64 if target.kind == "f" else np.int64)
    # The bits of a NaN are not known here.
    unknown = x.ambiguous | (x.error > 0) | (np.isnan(x.value) if x.is_float else False)
    return Bounded(wide, np.zeros(x.shape), np.asarray(unknown), attrs["dtype"])


def copy(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    (x,) = inputs
    return x


def _filled(number: int) -> Kernel:
    """Builds the kernel of zeros_like or ones_like; the operand's elements have no effect."""

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        (x,) = inputs
        value = np.full(x.shape, number).astype(x.value.dtype)
        return Bounded(value, np.zeros(x.shape), np.zeros(x.shape, bool), x.dtype)

    return kernel


def full_like(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Fills the shape of the first operand with the second, a scalar."""
    x, fill = inputs
    return fill.map(lambda v: np.broadcast_to(v, x.shape))


KERNELS: dict[str, Kernel] = {
    "cast": cast,
    "cast_like": cast_like,
    "reinterpret": reinterpret,
    "copy": copy,
    "zeros_like": _filled(0),
    "ones_like": _filled(1),
    "full_like": full_like,
}
