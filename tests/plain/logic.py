"""Plain evaluations: comparisons, logical and bitwise operators, choices between tensors."""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {}
