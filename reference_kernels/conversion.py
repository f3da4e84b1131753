"""Kernels: conversions between dtypes, and tensors made like another."""

from __future__ import annotations

from .elementwise import Kernel

KERNELS: dict[str, Kernel] = {}
