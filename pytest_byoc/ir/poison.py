"""Fills memory with a poison value before a run, so that unwritten output shows as wrong."""

from __future__ import annotations

import ctypes

#: The value of every byte of poisoned memory; four of them are 3.39e38 as float32.
POISON_BYTE = 0x7F
_M_PERTURB = -6


def poison_allocations() -> None:
    """Makes glibc's malloc fill allocated memory with `POISON_BYTE`."""
    try:
        ctypes.CDLL(None).mallopt(_M_PERTURB, 0xFF ^ POISON_BYTE)  # malloc fills with the complement
    except (OSError, AttributeError):
        # With another C library, only the outputs of the graph executor are poisoned.
        pass
