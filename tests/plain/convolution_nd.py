"""Plain evaluations: convolutions in one and three dimensions."""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {}
