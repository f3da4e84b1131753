"""Plain evaluations: elementwise functions of one tensor beyond the commonest."""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {}
