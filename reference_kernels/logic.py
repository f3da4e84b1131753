"""Kernels: comparisons, logical and bitwise operators, choices between tensors."""

from __future__ import annotations

from .elementwise import Kernel

KERNELS: dict[str, Kernel] = {}
