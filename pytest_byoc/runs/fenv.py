"""Detects changes of the thread's floating-point environment: rounding mode, flushed subnormals."""

from __future__ import annotations

import numpy as np

#: A float32 operation and its two operands, by a description of the mode that changes its result.
_PROBES = {
    "results that are subnormal become zero": ("multiply", 2.0**-126, 0.5),
    "operands that are subnormal become zero": ("multiply", 2.0**-127, 4.0),
    "results are no longer rounded to the nearest": ("add", 1.0, 3 * 2.0**-25),
    "results are rounded upwards": ("add", 1.0, 2.0**-25),
    "results are rounded downwards": ("add", -1.0, -(2.0**-25)),
}


def _state() -> dict[str, float]:
    with np.errstate(all="ignore"):
        return {
            # The operands are arrays of one element, so that NumPy does not treat them as
            # constants.
            what: float(getattr(np, f)(np.array([a], np.float32), np.array([b], np.float32))[0])
            for what, (f, a, b) in _PROBES.items()
        }


_before: dict[str, float] = {}


def remember() -> None:
    """Remembers the current modes: TVM has been imported, but no vendor code."""
    _before.update(_state())


def changes() -> list[str]:
    """Returns the modes that have changed since `remember`, in words."""
    return [what for what, value in _state().items() if value != _before.get(what, value)]
