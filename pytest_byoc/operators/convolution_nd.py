"""Convolutions in one and three dimensions."""

from __future__ import annotations

from typing import Tuple

from .record import Operator

OPERATORS: Tuple[Operator, ...] = ()
