"""The conformance checks, one per file, in the order in which they are made and reported.

The order matters twice: a check's worker half may use what an earlier one has built, and of several
findings on one graph the first names the failure, so that causes stand before their effects.
"""

from __future__ import annotations

from typing import Tuple

from . import inputs_unmodified, numerics, offload, outputs_written, rerun, roundtrip
from .base import Check, Finding

CHECKS: Tuple[Check, ...] = (
    offload.CHECK,
    inputs_unmodified.CHECK,
    outputs_written.CHECK,
    numerics.CHECK,
    rerun.CHECK,
    roundtrip.CHECK,
)

__all__ = ["CHECKS", "Check", "Finding"]
