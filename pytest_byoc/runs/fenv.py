"""What the thread's arithmetic does where modes of the processor decide: C's floating-point environment."""

from __future__ import annotations

import numpy as np

#: Two operands, added or multiplied in float32, by what a mode that differs is called.
_PROBES = {
    "results that are subnormal become zero": ("multiply", 2.0**-126, 0.5),
    "operands that are subnormal are taken for zero": ("multiply", 2.0**-127, 4.0),
    "results are no longer rounded to the nearest": ("add", 1.0, 3 * 2.0**-25),
    "results are rounded upwards": ("add", 1.0, 2.0**-25),
    "results are rounded downwards": ("add", -1.0, -(2.0**-25)),
}


def _state() -> dict[str, float]:
    with np.errstate(all="ignore"):
        return {
            # Of one element each: NumPy computes constants itself.
            what: float(getattr(np, f)(np.array([a], np.float32), np.array([b], np.float32))[0])
            for what, (f, a, b) in _PROBES.items()
        }


_before: dict[str, float] = {}


def remember() -> None:
    """Keeps what is so now: with TVM imported, and nothing of the vendor's."""
    _before.update(_state())


def changes() -> list[str]:
    """What is otherwise than it was then, in words."""
    return [what for what, value in _state().items() if value != _before.get(what, value)]
