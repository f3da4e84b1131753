"""A tensor with a bound on how far a correct implementation may be from it.

Running error analysis (Wilkinson; Higham, "Accuracy and Stability of Numerical Algorithms", 2nd
ed., section 3.3): a value computed in float64, and for each element a bound on the absolute error of
any correct evaluation in the graph's own dtype. Bounds of float64 tensors are doubled by whoever
compares (`comparison.allowed_error`), since there our own value is no more exact than the one it judges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from .precision import current

#: Unit roundoff: half the distance from 1.0 to the next number (IEEE 754).
UNIT_ROUNDOFF = {
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float32": 2.0**-24,
    "float64": 2.0**-53,
}
#: Largest finite number.
LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}
#: Smallest normal number. Results below it may lose all relative precision, or be flushed to zero.
SMALLEST_NORMAL = {
    "float16": 2.0**-14,
    "bfloat16": 2.0**-126,
    "float32": 2.0**-126,
    "float64": 2.0**-1022,
}
#: Of a format that is no tensor's dtype: float32 with 10 bits of fraction.
_TF32_ROUNDOFF = 2.0**-11


@dataclass(frozen=True)
class Bounded:
    """value: float64 for float dtypes, int64 for integers, bool for bool. error: float64, absolute,
    of the same shape; of an integer the steps that its quantisation leaves open. ambiguous: bool, same
    shape; where it is set, a correct implementation may return something else altogether and the
    element is not judged. dtype: of the graph's tensor.
    """

    value: np.ndarray
    error: np.ndarray
    ambiguous: np.ndarray
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def is_float(self) -> bool:
        return self.dtype in UNIT_ROUNDOFF

    @property
    def low(self) -> np.ndarray:
        return self.value - self.error

    @property
    def high(self) -> np.ndarray:
        return self.value + self.error

    def map(self, f) -> Bounded:  # type: ignore[no-untyped-def]
        """The same movement of elements applied to value, error and ambiguity."""
        return Bounded(f(self.value), f(self.error), f(self.ambiguous), self.dtype)


def exact(array: np.ndarray, dtype: str | None = None) -> Bounded:
    """A tensor known exactly: an input or a constant."""
    dtype = dtype or str(array.dtype)
    if dtype == "bool":
        value = array.astype(bool)
    elif dtype in UNIT_ROUNDOFF:
        value = array.astype(np.float64)
    else:
        value = array.astype(np.int64)
    return Bounded(value, np.zeros(value.shape), np.zeros(value.shape, bool), dtype)


def decided(x: Bounded) -> Bounded:
    """The tensor with integers ambiguous that are not known exactly."""
    if x.is_float or not x.error.any():
        return x
    return Bounded(x.value, np.zeros(x.shape), x.ambiguous | (x.error > 0), x.dtype)


def rounded(
    value: np.ndarray,
    propagated: np.ndarray | float,
    ambiguous: np.ndarray | bool,
    dtype: str,
    ulps: float = 1.0,
) -> Bounded:
    """The result of an operation: the propagated error plus `ulps` roundings to `dtype`.

    ulps counts units of the unit roundoff u relative to the largest magnitude the result can have:
    error = propagated + ulps * u * (|value| + propagated) + smallest normal number (underflow may be
    gradual or abrupt; none of it when ulps is 0). Elements whose interval crosses the dtype's largest
    number are ambiguous; those beyond it altogether are infinite, exactly.
    """
    value = np.asarray(value, np.float64)
    u = UNIT_ROUNDOFF[dtype]
    unsure = _copied(ambiguous, value.shape, np.bool_)
    error = _copied(propagated, value.shape, np.float64)
    if ulps:
        error += ulps * u * (np.abs(value) + error) + SMALLEST_NORMAL[dtype]
    magnitude = np.abs(value)
    if (magnitude + error).max(initial=0.0) <= LARGEST[dtype]:
        # Nearly always: nothing is infinite, nor NaN, nor may be.
        return Bounded(value, np.where(unsure, np.inf, error), unsure, dtype)
    # Infinite already, however its operands were rounded.
    surely = np.isinf(value) & np.isfinite(np.asarray(propagated, np.float64))
    # Beyond the largest number by half an ulp rounds to infinity.
    limit = LARGEST[dtype] * (1 + u)
    infinite = surely | (magnitude - error > limit)
    crossing = ~infinite & (magnitude + error > LARGEST[dtype])
    unknown = np.isnan(error) & ~np.isnan(value)
    value = np.where(infinite, np.copysign(np.inf, value), value)
    error = np.where(infinite | np.isnan(value), 0.0, error)
    unsure |= (crossing & ~infinite) | unknown | np.isinf(error)
    return Bounded(value, np.where(unsure, np.inf, error), unsure, dtype)


def _copied(given: np.ndarray | float | bool, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """An array of that shape to write into."""
    found: np.ndarray = np.array(given, dtype)
    return found if found.shape == shape else np.broadcast_to(found, shape).copy()


def gamma(n: float | np.ndarray, u: float) -> float | np.ndarray:
    """Higham's gamma(n) = n*u / (1 - n*u); infinite where n*u reaches 1."""
    nu = np.asarray(n, np.float64) * u
    return np.where(nu < 1, nu / (1 - nu), np.inf)[()]


@dataclass(frozen=True)
class Arithmetic:
    """Unit roundoff; what underflow may take from a term; the largest finite number."""

    u: float
    lost: float
    largest: float


def arithmetic(dtype: str) -> Arithmetic:
    """A dtype's own. What underflows may be flushed to zero, be that declared or not."""
    return Arithmetic(UNIT_ROUNDOFF[dtype], SMALLEST_NORMAL[dtype], LARGEST[dtype])


def accumulator(dtype: str, elements: str | None = None) -> Arithmetic:
    """The arithmetic of sums whose result is a `dtype`, of `elements` (by default the same).

    That of the dtype, or what is declared. A sum made in another format is rounded to the dtype at the
    end: the roundoffs add up. Underflow is gradual there unless subnormals are flushed: half the
    distance of subnormals.
    """
    own, precision = arithmetic(dtype), current()
    declared = precision.accumulate_dtype.get(elements or dtype)
    if declared is None or declared == dtype:
        return own
    lower = arithmetic(declared)
    lost = lower.lost if precision.flush_subnormals else lower.lost * lower.u
    return Arithmetic(own.u + lower.u, max(own.lost, lost), min(own.largest, lower.largest))


def overflowing(magnitude: np.ndarray, sums: Arithmetic, dtype: str) -> np.ndarray:
    """Where a sum of such magnitude may overflow a declared accumulator that is narrower than the dtype."""
    return (magnitude > sums.largest) & (sums.largest < LARGEST[dtype])


def accumulated(
    value: np.ndarray,
    magnitude: np.ndarray,
    propagated: np.ndarray | float,
    terms: int | np.ndarray,
    ambiguous: np.ndarray | bool,
    dtype: str,
    ulps: float = 0.0,
    sums: Arithmetic | None = None,
) -> Bounded:
    """A sum of `terms` terms or products in any order, followed by `ulps` roundings.

    magnitude: the sum of the absolute values of the terms, infinite ones left out. Error:
    gamma(terms) * magnitude, Higham, section 4.2, and for each term what underflow may take away.
    terms: their number, or that of each element. sums: the arithmetic, by default accumulator(dtype).
    Where a partial sum may overflow the result is ambiguous.
    """
    sums = sums or accumulator(dtype)
    largest = magnitude + propagated
    error = propagated + gamma(terms, sums.u) * largest
    error = error + terms * sums.lost
    overflow = largest + error > sums.largest
    return rounded(value, error, ambiguous | overflow, dtype, ulps)


def unwrapped(f: Callable[..., Any], *operands: np.ndarray) -> Any:
    """f of integers, in Python's own, which do not overflow, where any of them is large."""
    if any(v.size and max(int(v.max()), -int(v.min())) >= 2**31 for v in operands):
        operands = tuple(v.astype(object) for v in operands)
    return f(*operands)


# --- declared precision ----------------------------------------------------------------------


def contraction_operand(x: Bounded) -> Bounded:
    """x as a contraction reads it: float32 rounded to the declared dtype, by a relative u, and half the
    distance of subnormals below its normal numbers (all of them where they are flushed). What that
    dtype holds exactly stays; what may be beyond its largest number is ambiguous.
    """
    precision = current()
    kind = precision.contraction_dtype
    if kind is None or x.dtype != "float32":
        return x
    wide = "float32" if kind == "tfloat32" else kind
    u = _TF32_ROUNDOFF if kind == "tfloat32" else UNIT_ROUNDOFF[kind]
    tiny, flushes = SMALLEST_NORMAL[wide], precision.flush_subnormals
    size = np.abs(x.value)
    mantissa = np.frexp(size)[0] / u
    held = (mantissa == np.floor(mantissa)) & ((size >= tiny) | (size == 0)) & (x.error == 0)
    held = (held & (size <= LARGEST[wide])) | ~np.isfinite(size)
    below = np.where(size - x.error < tiny, tiny * (1.0 if flushes else u), 0.0)
    moved = np.where(held, 0.0, u * (size + x.error) + below)
    beyond = ~held & (size + x.error + moved > LARGEST[wide])
    error = np.where(beyond, np.inf, x.error + moved)
    return Bounded(x.value, error, x.ambiguous | beyond, x.dtype)


def flushed(x: Bounded) -> Bounded:
    """x, whose elements may have become zero where they may be subnormal (IEEE 754-2019, section 7.5,
    knows gradual underflow alone)."""
    if not x.is_float:
        return x
    tiny = SMALLEST_NORMAL[x.dtype]
    near = (np.abs(x.value) - x.error < tiny) & ((x.value != 0) | (x.error > 0))
    return Bounded(x.value, x.error + np.where(near, tiny, 0.0), x.ambiguous, x.dtype)


def less_accurate(y: Bounded, ulps: float, error: float = 0.0) -> Bounded:
    """A function's result that may be off by so many more units in the last place, 2 u each, and by so much,
    where it is finite; an integer by so many steps."""
    if not y.is_float:
        return replace(y, error=y.error + np.floor(error))
    more = np.where(np.isfinite(y.value), error, 0.0)
    return rounded(y.value, y.error + more, y.ambiguous, y.dtype, 2 * ulps)


@lru_cache
def _ends(dtype: str) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def integer(value: np.ndarray, ambiguous: np.ndarray | bool, dtype: str) -> Bounded:
    """An exact integer result. Overflow of int32 and int64 is undefined in TVM's LLVM code: ambiguous.
    value: int64, or Python's integers as `unwrapped` makes them."""
    least, most = _ends(dtype)
    value = np.asarray(value)
    overflow = np.asarray((value < least) | (value > most), bool)
    if value.dtype == object:
        value = np.where(overflow, 0, value)
    value = np.asarray(value, np.int64)
    flags = np.broadcast_to(np.asarray(ambiguous, bool), value.shape) | overflow
    return Bounded(value, np.zeros(value.shape), np.asarray(flags), dtype)


def maybe_flushed(x: Bounded) -> Bounded:
    """The tensor, known no better than to be zero or itself where it is subnormal: a processor may take
    such an operand for zero."""
    if not x.is_float:
        return x
    magnitude = np.abs(x.value)
    subnormal = magnitude < SMALLEST_NORMAL[x.dtype]
    if subnormal.any():
        subnormal &= magnitude > 0
    if not subnormal.any():
        return x
    return replace(x, error=np.where(subnormal, np.maximum(x.error, magnitude), x.error))
