"""Values at which functions behave otherwise: where they saturate, bend, jump, or have a pole.

An approximation may be right between -2 and 2 and at the extremes, and wrong between them: a sigmoid
that is 1 beyond 8, for example. Each set is for the field `interesting` of a record.
"""

from __future__ import annotations

import math

_NEAR = (2.0**-12, 2.0**-6, 0.25, 0.5, 0.625, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0)
_FAR = (6.9, 7.5, 8.0, 8.5, 9.01, 10.0, 12.0, 14.0, 16.6, 18.0, 20.5, 24.0, 32.0, 44.0, 60.0, 80.0)
_FARTHEST = (87.0, 88.5, 90.0)


def both_signs(*values: float) -> tuple[float, ...]:
    """Returns the values, and their negatives, from the smallest on."""
    return tuple(sorted({sign * value for value in values for sign in (1.0, -1.0)}))


def around(*knees: float) -> tuple[float, ...]:
    """Returns values before, at and after each knee, near it and a little further."""
    return tuple(knee + step for knee in knees for step in (-0.5, -(2.0**-10), 0.0, 2.0**-10, 0.5))


#: Functions made of exponentials: from where they are linear to where they have saturated.
SATURATING = both_signs(*_NEAR, *_FAR, *_FARTHEST)
#: Functions with a pole or a branch at zero: over the whole range of float16, close together at 1.
POSITIVE = (
    *(2.0**n for n in range(-14, 16, 2)), 3.0, 10.0, 100.0, 1000.0,
    *(1 + sign * 2.0**-n for n in (1, 4, 8, 12, 20) for sign in (1, -1)),
)  # fmt: skip
#: The inverse function of the hyperbolic cosine, which is defined from 1 on.
ABOVE_ONE = tuple(value for value in POSITIVE if value >= 1)
#: Inverse functions of sine and cosine: where they change from one formula to another, and the ends.
UP_TO_ONE = both_signs(2.0**-12, 0.25, 0.49, 0.5, 0.51, 0.7, 0.71, 0.9, 0.975, 0.999, 1 - 2.0**-20, 1.0)
#: Functions with a period: multiples of a quarter of it, and values that far ones are reduced to.
PERIODIC = both_signs(
    *(n * math.pi / 4 for n in (1, 2, 3, 4, 5, 8, 16)), 2.0**-12, 0.5, 1.0, 10.0, 31.4, 90.0
)  # fmt: skip
#: Functions that round: halves, values just beside them, and where floats have no fractions left.
ROUNDING = both_signs(
    0.25, 0.5 - 2.0**-25, 0.5, 0.5 + 2.0**-24, 0.75, 1.0, 1.25, 1.5, 1.75, 2.49, 2.5, 2.51, 3.5, 4.49, 127.5,
    127.51, 1023.5, 1023.4, 4194303.5, 4194303.0, 8388609.0,
)  # fmt: skip
#: Conversions: fractions that are not 0, values whose low bytes are 0, and the ends of integers.
CONVERTED = both_signs(
    2.0**-20, 0.25, 0.5, 0.999, 1.0, 1.5, 2.5, 127.0, 127.5, 128.0, 255.0, 256.0, 4096.0, 32767.0, 65504.0,
    65536.0, 2.0**24 + 2, 2.0**31 - 128, 2.0**31, 2.0**32, 2.0**40,
)  # fmt: skip
