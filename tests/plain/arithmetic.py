"""Plain evaluations: arithmetic of two tensors beyond add, subtract, multiply and divide."""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {}
