"""Plain evaluations: transposed convolutions, and gradients of convolutions."""

from __future__ import annotations

from typing import Any

PLAIN: dict[str, Any] = {}
