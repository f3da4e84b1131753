"""Plain evaluations: quantisation, and operators on quantised tensors."""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {}
