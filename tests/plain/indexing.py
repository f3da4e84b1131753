"""Plain evaluations: elements picked, placed and ordered by index."""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {}
