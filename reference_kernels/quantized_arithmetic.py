"""Kernels of arithmetic, matrix products and convolutions on quantised tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .bounded import Bounded
from .convolution import conv
from .elementwise import Attrs, Kernel
from .matrix import contracted, product
from .quantized import Steps, along, scaled, shifted
from .transposed import conv_transpose


def _pair(inputs: Sequence[Bounded], attrs: Attrs) -> tuple[Bounded, np.ndarray, Bounded, np.ndarray]:
    """Returns both operands less their zero points, and their scales: (a, scale_a, b, scale_b).

    The scales broadcast over the operands.
    """
    a, b, sa, za, sb, zb = inputs[:6]
    # The channels of the first operand may have their own scales, along its last axis.
    rank = len(a.shape)
    return shifted(a, along(za, -1, rank)), along(sa, -1, rank), shifted(b, zb.value), sb.value


def _sum(sign: int) -> Kernel:
    """Builds the kernel of qnn.add (sign 1) or qnn.subtract (sign -1).

    TVM requantises each operand to the output's scale and adds the integers; an implementation may
    also round the sum of the real numbers once. Where the two differ, both are right.
    """

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        a, sa, b, sb = _pair(inputs, attrs)
        scale, zero_point = inputs[6].value, inputs[7].value
        p, q = scaled(a, sa, scale), scaled(b, sign * sb, scale)
        once = Steps(p.real + q.real, p.delta + q.delta, p.ambiguous | q.ambiguous)
        # Where b is subtracted, TVM negates after rounding: -floor(x + 0.5).
        second = scaled(b, sb, scale).value * sign
        once.value = p.value + second
        once.low = np.minimum(once.low, p.low + q.low)
        once.high = np.maximum(once.high, p.high + q.high)
        return once.quantized(zero_point, inputs[0].dtype)

    return kernel


def mul(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes scale_a * scale_b / scale_out * (a - zero_a) * (b - zero_b), rounded once.

    The product of the scales, which may be rounded to float32, is granted one rounding more.
    """
    a, sa, b, sb = _pair(inputs, attrs)
    value = a.value * b.value
    error = np.abs(a.value) * b.error + np.abs(b.value) * a.error
    if a.error.any() and b.error.any():
        error = error + a.error * b.error
    ambiguous = a.ambiguous | b.ambiguous
    whole = Bounded(value, np.where(ambiguous, 0.0, error), ambiguous, "int32")
    return scaled(whole, sa * sb, inputs[6].value, ulps=5).quantized(inputs[7].value, inputs[0].dtype)


# --- products: int32, of scale input_scale * kernel_scale and zero point 0 --------------------------


def _operands(inputs: Sequence[Bounded]) -> tuple[Bounded, Bounded]:
    x, w, input_zero_point, kernel_zero_point = inputs[:4]
    return shifted(x, input_zero_point.value.reshape(())), shifted(w, kernel_zero_point.value.reshape(()))


def qconv2d(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Sums (x - zero_x) * (w - zero_w); x is padded with its zero point."""
    return conv(_operands(inputs), attrs)


def dense(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    a, b = _operands(inputs)
    return contracted(product(False, True), a, b, a.shape[-1])


def conv2d_transpose(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    return conv_transpose(_operands(inputs), {"dilation": (1, 1), **attrs})


KERNELS: dict[str, Kernel] = {
    "qnn.conv2d": qconv2d,
    "qnn.dense": dense,
    "qnn.conv2d_transpose": conv2d_transpose,
    "qnn.add": _sum(1),
    "qnn.subtract": _sum(-1),
    "qnn.mul": mul,
    "qnn.batch_matmul": dense,
}
