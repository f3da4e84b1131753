"""Plain evaluations: elements moved in blocks: tiles, flips, stacks, layouts."""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {}
