"""Kernels: arithmetic of two tensors beyond add, subtract, multiply and divide."""

from __future__ import annotations

from .elementwise import Kernel

KERNELS: dict[str, Kernel] = {}
