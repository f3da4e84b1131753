"""Kernels: pooling in one and three dimensions, and to a given size."""

from __future__ import annotations

from .elementwise import Kernel

KERNELS: dict[str, Kernel] = {}
