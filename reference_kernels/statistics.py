"""Kernels: reductions to an index, a truth value or a spread, and scans along an axis."""

from __future__ import annotations

from .elementwise import Kernel

KERNELS: dict[str, Kernel] = {}
