"""Pooling in one and three dimensions, and to a given size."""

from __future__ import annotations

from typing import Tuple

from .record import Operator

OPERATORS: Tuple[Operator, ...] = ()
