"""Elementwise functions of one tensor beyond the commonest: trigonometry, roots, activations."""

from __future__ import annotations

from typing import Tuple

from .record import Operator

OPERATORS: Tuple[Operator, ...] = ()
