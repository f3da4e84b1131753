"""Plain evaluations: pooling in one and three dimensions, and to a given size."""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {}
