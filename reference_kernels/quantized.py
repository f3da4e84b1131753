"""Kernels: quantisation, and operators on quantised tensors."""

from __future__ import annotations

from .elementwise import Kernel

KERNELS: dict[str, Kernel] = {}
