"""Kernels: elements picked, placed and ordered by index."""

from __future__ import annotations

from .elementwise import Kernel

KERNELS: dict[str, Kernel] = {}
