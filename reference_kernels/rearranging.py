"""Kernels: elements moved in blocks: tiles, flips, stacks, layouts."""

from __future__ import annotations

from .elementwise import Kernel

KERNELS: dict[str, Kernel] = {}
