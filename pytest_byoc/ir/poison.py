"""What memory holds before a run, so that what is never written does not look right."""

from __future__ import annotations

import ctypes

#: In every byte; as float32 3.39e38.
POISON_BYTE = 0x7F
_M_PERTURB = -6


def poison_allocations() -> None:
    """Makes glibc fill what it hands out with `POISON_BYTE`."""
    try:
        ctypes.CDLL(None).mallopt(_M_PERTURB, 0xFF ^ POISON_BYTE)  # malloc fills with the complement
    except (OSError, AttributeError):  # another C library: the graph executor's poison remains
        pass
