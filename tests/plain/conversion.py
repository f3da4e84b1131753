"""Plain evaluations: conversions between dtypes, and tensors made like another."""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {}
