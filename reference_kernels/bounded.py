"""A tensor with a bound on how far a correct implementation may be from it.

Kernels do a running error analysis (Wilkinson; Higham, "Accuracy and Stability of Numerical
Algorithms", 2nd ed., section 3.3): the value is computed in float64, and each element has a bound
on the absolute error of any correct evaluation in the graph's own dtype. For a float64 tensor that
value is no more exact than the result it judges, so the comparison doubles the bound
(`comparison.allowed_error`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from .precision import current

#: Unit roundoff u by dtype: half the distance from 1.0 to the next larger number (IEEE 754).
UNIT_ROUNDOFF = {
    "float16": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float32": 2.0**-24,
    "float64": 2.0**-53,
}
#: Largest finite number by dtype.
LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}
#: Smallest positive normal number by dtype. Results below it may lose all relative precision, or be
#: flushed to zero.
SMALLEST_NORMAL = {
    "float16": 2.0**-14,
    "bfloat16": 2.0**-126,
    "float32": 2.0**-126,
    "float64": 2.0**-1022,
}
#: Unit roundoff of TF32, which is float32 with 10 bits of fraction. No tensor has this dtype.
_TF32_ROUNDOFF = 2.0**-11


@dataclass(frozen=True)
class Bounded:
    """A tensor with the largest error that a correct implementation may make in each element.

    value: the values; float64 for float dtypes, int64 for integers, bool for bool.
    error: float64 array of the same shape, the bound on the absolute error of each element; for an
        integer, the number of quantisation steps by which a correct result may differ.
    ambiguous: bool array of the same shape. Where it is True, a correct implementation may return
        any value, and the element is not judged.
    dtype: the dtype of the tensor in the graph.
    narrow: a mask of the elements that are ambiguous only because the dtype is narrow: a sum may overflow,
        or a difference of sums be all rounding; None where that is not known. Kernels neither set nor use it.
    """

    value: np.ndarray
    error: np.ndarray
    ambiguous: np.ndarray
    dtype: str
    narrow: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns the shape of the tensor, shared by `value`, `error` and `ambiguous`."""
        return self.value.shape

    @property
    def is_float(self) -> bool:
        """True if the dtype is float16, bfloat16, float32 or float64."""
        return self.dtype in UNIT_ROUNDOFF

    @property
    def low(self) -> np.ndarray:
        """Returns the lower end of each element's interval."""
        return self.value - self.error

    @property
    def high(self) -> np.ndarray:
        """Returns the upper end of each element's interval."""
        return self.value + self.error

    def map(self, f) -> Bounded:  # type: ignore[no-untyped-def]
        """Applies f, which only moves elements (a reshape, a slice ...), to all three arrays."""
        return Bounded(f(self.value), f(self.error), f(self.ambiguous), self.dtype)


def exact(array: np.ndarray, dtype: str | None = None) -> Bounded:
    """Returns a tensor whose elements are known exactly: an input or a constant of the graph.

    dtype: the dtype in the graph, by default the array's. The values become float64, int64 or bool;
    every error is 0 and no element is ambiguous.
    """
    dtype = dtype or str(array.dtype)
    if dtype == "bool":
        value = array.astype(bool)
    elif dtype in UNIT_ROUNDOFF:
        value = array.astype(np.float64)
    else:
        value = array.astype(np.int64)
    return Bounded(value, np.zeros(value.shape), np.zeros(value.shape, bool), dtype)


def decided(x: Bounded) -> Bounded:
    """Returns the tensor with integers of nonzero error made ambiguous; floats stay unchanged."""
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
    """Returns a float result whose error is the propagated one plus `ulps` roundings to `dtype`.

    value: the result in float64. propagated: the absolute error that the operands' errors cause.
    ambiguous: flags that the result takes over; both broadcast to the shape of `value`.
    ulps: the roundings, each of one unit roundoff u of the largest magnitude the result can have.

    error = propagated + ulps * u * (|value| + propagated) + smallest normal number. The last term
    covers underflow, gradual or abrupt; when `ulps` is 0, both terms are left out. An element whose
    interval crosses the dtype's largest number is ambiguous. An element whose whole interval
    exceeds it in magnitude is infinite, with error 0. Ambiguous elements have an infinite error.
    """
    value = np.asarray(value, np.float64)
    u = UNIT_ROUNDOFF[dtype]
    unsure = _copied(ambiguous, value.shape, np.bool_)
    error = _copied(propagated, value.shape, np.float64)
    if ulps:
        error += ulps * u * (np.abs(value) + error) + SMALLEST_NORMAL[dtype]
    magnitude = np.abs(value)
    if (magnitude + error).max(initial=0.0) <= LARGEST[dtype]:
        # The usual case, kept cheap: no element is NaN or infinite, or may become infinite.
        return Bounded(value, np.where(unsure, np.inf, error), unsure, dtype)
    # The value is infinite, however the operands were rounded.
    surely = np.isinf(value) & np.isfinite(np.asarray(propagated, np.float64))
    # A result that exceeds the largest number by half an ulp rounds to infinity.
    limit = LARGEST[dtype] * (1 + u)
    infinite = surely | (magnitude - error > limit)
    crossing = ~infinite & (magnitude + error > LARGEST[dtype])
    unknown = np.isnan(error) & ~np.isnan(value)
    value = np.where(infinite, np.copysign(np.inf, value), value)
    error = np.where(infinite | np.isnan(value), 0.0, error)
    unsure |= (crossing & ~infinite) | unknown | np.isinf(error)
    return Bounded(value, np.where(unsure, np.inf, error), unsure, dtype)


def _copied(given: np.ndarray | float | bool, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Returns a fresh, writable array of that shape and dtype."""
    array: np.ndarray = np.array(given, dtype)
    return array if array.shape == shape else np.broadcast_to(array, shape).copy()


def gamma(n: float | np.ndarray, u: float) -> float | np.ndarray:
    """Returns gamma(n) = n*u / (1 - n*u) (Higham, lemma 3.1); infinity where n*u reaches 1.

    It bounds the relative error of a product of n factors (1 + d) or 1 / (1 + d) with |d| <= u.
    """
    nu = np.asarray(n, np.float64) * u
    return np.where(nu < 1, nu / (1 - nu), np.inf)[()]


@dataclass(frozen=True)
class Arithmetic:
    """The arithmetic in which a sum is computed.

    u: the unit roundoff, relative. lost: the absolute error that underflow may cause in one term.
    largest: the largest finite number.
    """

    u: float
    lost: float
    largest: float


def arithmetic(dtype: str) -> Arithmetic:
    """Returns the arithmetic of a dtype; results that underflow may always be flushed to zero."""
    return Arithmetic(UNIT_ROUNDOFF[dtype], SMALLEST_NORMAL[dtype], LARGEST[dtype])


def accumulator(dtype: str, elements: str | None = None) -> Arithmetic:
    """Returns the arithmetic of sums with a result in `dtype`.

    elements: the dtype of the summed elements, by default `dtype`.

    It is the arithmetic of `dtype`, unless the current precision declares another accumulator for
    the elements. A sum in the declared dtype is rounded to `dtype` at the end, so the two unit
    roundoffs add up. A term then loses at most half the distance between subnormals of the declared
    dtype, or its smallest normal number if subnormals are flushed.
    """
    own, precision = arithmetic(dtype), current()
    declared = precision.accumulate_dtype.get(elements or dtype)
    if declared is None or declared == dtype:
        return own
    lower = arithmetic(declared)
    lost = lower.lost if precision.flush_subnormals else lower.lost * lower.u
    return Arithmetic(own.u + lower.u, max(own.lost, lost), min(own.largest, lower.largest))


def overflowing(magnitude: np.ndarray, sums: Arithmetic, dtype: str) -> np.ndarray:
    """Returns where a sum of that magnitude may overflow an accumulator narrower than `dtype`."""
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
    """Returns a sum of `terms` terms or products, added in any order, followed by `ulps` roundings.

    value: the sum in float64. magnitude: the sum of the absolute values of the finite terms.
    propagated: the absolute error that the operands' errors cause. terms: the number of terms, for
    all elements or for each one. sums: the arithmetic of the sum, by default accumulator(dtype).

    error = propagated + gamma(terms) * (magnitude + propagated) + terms * sums.lost (Higham,
    section 4.2; the last term is for underflow). Where a partial sum may overflow, the result is
    ambiguous.
    """
    sums = sums or accumulator(dtype)
    largest = magnitude + propagated
    error = propagated + gamma(terms, sums.u) * largest
    error = error + terms * sums.lost
    overflow = largest + error > sums.largest
    return rounded(value, error, ambiguous | overflow, dtype, ulps)


def unwrapped(f: Callable[..., Any], *operands: np.ndarray) -> Any:
    """Returns f of int64 arrays, with Python's integers instead if any magnitude reaches 2**31.

    Python's integers do not overflow; the result is then an array of objects.
    """
    if any(v.size and max(int(v.max()), -int(v.min())) >= 2**31 for v in operands):
        operands = tuple(v.astype(object) for v in operands)
    return f(*operands)


# --- declared precision ----------------------------------------------------------------------


def contraction_operand(x: Bounded) -> Bounded:
    """Returns x as a contraction reads it: float32 rounded to the declared contraction dtype.

    Without a declaration, and for other dtypes, it returns x. The rounding adds u * (|x| + error)
    to the error, u being the declared dtype's unit roundoff. Elements that may be subnormal there
    get half the distance between subnormals more, or the smallest normal number if subnormals are
    flushed. Elements that the dtype holds exactly keep their error. Elements that may exceed its
    largest number are ambiguous.
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
    """Returns x with the smallest normal number added to the error where x may be subnormal.

    It models hardware that flushes subnormal numbers to zero; IEEE 754-2019, section 7.5, only has
    gradual underflow. Integers stay unchanged.
    """
    if not x.is_float:
        return x
    tiny = SMALLEST_NORMAL[x.dtype]
    near = (np.abs(x.value) - x.error < tiny) & ((x.value != 0) | (x.error > 0))
    return Bounded(x.value, x.error + np.where(near, tiny, 0.0), x.ambiguous, x.dtype)


def less_accurate(y: Bounded, ulps: float, error: float = 0.0) -> Bounded:
    """Returns a function's result with a larger error, as declared for the target.

    ulps: units in the last place, of 2 u |y| each. error: an absolute error, added where y is
    finite. For an integer result only `error` counts, rounded down to a whole number of steps.
    """
    if not y.is_float:
        return replace(y, error=y.error + np.floor(error))
    more = np.where(np.isfinite(y.value), error, 0.0)
    return rounded(y.value, y.error + more, y.ambiguous, y.dtype, 2 * ulps)


@lru_cache
def _ends(dtype: str) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def integer(value: np.ndarray, ambiguous: np.ndarray | bool, dtype: str) -> Bounded:
    """Returns an exact integer result of that dtype.

    value: an int64 array, or Python's integers as `unwrapped` returns them. Values outside the
    dtype's range are ambiguous, since signed overflow is undefined in TVM's LLVM code.
    """
    least, most = _ends(dtype)
    value = np.asarray(value)
    overflow = np.asarray((value < least) | (value > most), bool)
    if value.dtype == object:
        value = np.where(overflow, 0, value)
    value = np.asarray(value, np.int64)
    flags = np.broadcast_to(np.asarray(ambiguous, bool), value.shape) | overflow
    return Bounded(value, np.zeros(value.shape), np.asarray(flags), dtype)


def maybe_flushed(x: Bounded) -> Bounded:
    """Returns the tensor with the error of each subnormal element raised to its magnitude at least.

    A processor may treat a subnormal operand as zero, so its interval must include zero.
    """
    if not x.is_float:
        return x
    magnitude = np.abs(x.value)
    subnormal = magnitude < SMALLEST_NORMAL[x.dtype]
    if subnormal.any():
        subnormal &= magnitude > 0
    if not subnormal.any():
        return x
    return replace(x, error=np.where(subnormal, np.maximum(x.error, magnitude), x.error))
