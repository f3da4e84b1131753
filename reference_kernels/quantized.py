"""Kernels of quantisation, and of operators that requantise their operands.

A quantised tensor q stands for the real numbers scale * (q - zero_point). Kernels evaluate the real
result in float64, in steps of the output's scale, and round it once. An integer's `error` counts
steps. It is not 0 where the real result is so close to the middle between two integers that the
arithmetic decides (a multiplication in float32, or by a fixed-point multiplier of 31 bits), or
where TVM does not specify how a middle is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .bounded import LARGEST, UNIT_ROUNDOFF, Bounded, rounded
from .elementwise import Attrs, Kernel

#: Unit roundoff of float32, the arithmetic in which results are scaled to steps.
_U = UNIT_ROUNDOFF["float32"]


def along(parameter: Bounded, axis: int, rank: int) -> np.ndarray:
    """Returns the values of a scale or zero point in a shape that broadcasts over a tensor.

    The parameter has one element for the tensor, or one for each channel along `axis`.
    """
    v = parameter.value
    if v.size == 1 or rank == 0:
        return v.reshape(())
    return v.reshape([-1 if i == axis % rank else 1 for i in range(rank)])


def shifted(q: Bounded, zero_point: np.ndarray) -> Bounded:
    """Returns q - zero_point as int32, ambiguous where that overflows."""
    value = q.value - zero_point.astype(np.int64)
    overflow = np.abs(value) >= 2**31
    return Bounded(value, q.error, q.ambiguous | overflow, "int32")


class Steps:
    """A real result in steps of the output's scale, and the integers it may be rounded to.

    real: float64, the result before rounding. delta: its largest error, in steps. value: the
    expected integer. low, high: the range of integers that a correct implementation may return.
    ambiguous: bool, where nothing is known. Where delta is 0, low and high differ only in the exact
    middle between two integers, and not even there if `rounding` names a direction.
    """

    def __init__(
        self, value: np.ndarray, delta: np.ndarray, ambiguous: np.ndarray, rounding: str = "None"
    ) -> None:
        self.real, self.delta = value, np.where(np.isinf(value), 0.0, delta)
        upward = np.floor(value + 0.5)
        away = np.copysign(np.floor(np.abs(value) + 0.5), value)
        self.value = away if rounding == "TONEAREST" else upward
        named = (self.delta == 0) & (rounding != "None")
        self.low = np.where(named, self.value, np.ceil(value - self.delta - 0.5))
        self.high = np.where(named, self.value, np.floor(value + self.delta + 0.5))
        self.ambiguous = np.broadcast_to(ambiguous | np.isnan(value), value.shape)

    def quantized(self, zero_point: np.ndarray | int, dtype: str) -> Bounded:
        """Returns the integers plus the zero point, saturated to the dtype's range.

        For int32, results that may exceed the range are ambiguous.
        """
        info = np.iinfo(dtype)
        value, low, high = (
            np.where(self.ambiguous, 0.0, v) + zero_point for v in (self.value, self.low, self.high)
        )
        unknown = self.ambiguous
        if dtype == "int32":
            unknown = unknown | (high > info.max) | (low < info.min)
        value, low, high = (np.clip(v, info.min, info.max) for v in (value, low, high))
        error = np.where(unknown, np.inf, np.maximum(value - low, high - value))
        return Bounded(value.astype(np.int64), error, unknown, dtype)


def scaled(q: Bounded, scale: np.ndarray, over: np.ndarray, rounding: str = "None", ulps: float = 4) -> Steps:
    """Multiplies integers by scale / over, which may be rounded to float32 or to 31 bits.

    The error is `ulps` roundings of float32 (by default 4: the multiplier, the integer, the
    product, the 0.5 added to round). It is 0 where the quotient and all later steps are exact in
    float32. Errors of q, times the multiplier, are added.
    """
    ratio = scale / over
    short = ratio.astype(np.float32).astype(np.float64)
    real = q.value * ratio
    exact = (short * over == scale) & (scale.astype(np.float32) == scale) & (np.abs(q.value) < 2**24)
    for part in (real, real + 0.5, real - 0.5):
        exact = exact & (part.astype(np.float32) == part)
    delta = np.where(exact, 0.0, ulps * _U * (np.abs(real) + 1))
    delta = delta + np.where(q.error > 0, np.abs(ratio) * q.error, 0.0)
    return Steps(real, delta, q.ambiguous, rounding)


def quantize(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes round(x / scale) + zero_point, saturated.

    The quotient is granted 3 roundings, as in `divide`.
    """
    x, scale, zero_point = inputs
    rank = len(x.shape)
    s = along(scale, attrs["axis"], rank)
    real = x.value / s
    delta = x.error / s + 3 * UNIT_ROUNDOFF[x.dtype] * (np.abs(real) + x.error / s)
    # Relay rounds a half away from zero, Relax to even, so both are right.
    steps = Steps(real, delta, x.ambiguous)
    return steps.quantized(along(zero_point, attrs["axis"], rank), attrs["out_dtype"])


def dequantize(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes scale * (q - zero_point) in float32, where the integer and the product are rounded.

    The cast to `out_dtype` rounds once more.
    """
    q, scale, zero_point = inputs
    rank, dtype = len(q.shape), attrs["out_dtype"]
    whole = shifted(q, along(zero_point, attrs["axis"], rank))
    s = along(scale, attrs["axis"], rank)
    value = whole.value * s
    inexact = np.where(np.abs(whole.value) > 2**24, 3.0, 2.0) * _U * np.abs(value)
    if dtype == "float32":
        propagated, ulps = np.where(whole.error > 0, s * whole.error, 0.0), 3.0
    else:
        propagated, ulps = np.where(whole.error > 0, s * whole.error, 0.0) + inexact, 1.0
    # Above the largest float16 TVM saturates; a cast gives infinity.
    beyond = np.abs(value) + propagated > LARGEST[dtype] * (1 - UNIT_ROUNDOFF[dtype])
    return rounded(value, np.where(whole.ambiguous, 0.0, propagated), whole.ambiguous | beyond, dtype, ulps)


def _requantized(
    q: Bounded, scale: Bounded, zero_point: Bounded, over: Bounded, attrs: Attrs
) -> Steps:
    axis, rank = attrs.get("axis", -1), len(q.shape)
    whole = shifted(q, along(zero_point, axis, rank))
    return scaled(whole, along(scale, axis, rank), over.value, attrs.get("rounding", "None"))


def requantize(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes zero_point_out + scale_in / scale_out * (q - zero_point_in), rounded, saturated."""
    q, scale, zero_point, out_scale, out_zero_point = inputs
    steps = _requantized(q, scale, zero_point, out_scale, attrs)
    if attrs["rounding"] == "TONEAREST":
        # A middle is rounded away from zero. TVM adds the zero point after rounding in its integer
        # arithmetic, but before rounding in its float arithmetic. Where the zero point changes the
        # sign, both directions are right.
        turned = (steps.real < 0) != (steps.real + out_zero_point.value < 0)
        steps.low = np.where(turned, np.ceil(steps.real - steps.delta - 0.5), steps.low)
        steps.high = np.where(turned, np.floor(steps.real + steps.delta + 0.5), steps.high)
    return steps.quantized(out_zero_point.value, attrs["out_dtype"])


def concatenate(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Requantises each operand to the output's scale and zero point, then joins them."""
    n = (len(inputs) - 2) // 3
    parts = [
        _requantized(q, s, z, inputs[-2], {}).quantized(inputs[-1].value, q.dtype)
        for q, s, z in zip(inputs[:n], inputs[n : 2 * n], inputs[2 * n :])
    ]

    def join(of: Callable[[Bounded], np.ndarray]) -> np.ndarray:
        return np.concatenate([of(p) for p in parts], axis=attrs["axis"])

    return Bounded(
        join(lambda p: p.value), join(lambda p: p.error), join(lambda p: p.ambiguous), parts[0].dtype
    )


KERNELS: dict[str, Kernel] = {
    "qnn.quantize": quantize,
    "qnn.dequantize": dequantize,
    "qnn.requantize": requantize,
    "qnn.concatenate": concatenate,
}
