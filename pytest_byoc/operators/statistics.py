"""Reductions to an index, a truth value or a spread, and scans along an axis."""

from __future__ import annotations

from typing import Tuple

from .record import Operator

OPERATORS: Tuple[Operator, ...] = ()
