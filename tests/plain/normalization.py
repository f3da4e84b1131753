"""Plain evaluations: normalisations."""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {}
