"""Elements moved in blocks: tiles, flips, stacks, layouts."""

from __future__ import annotations

from typing import Tuple

from .record import Operator

OPERATORS: Tuple[Operator, ...] = ()
