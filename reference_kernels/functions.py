"""Kernels: elementwise functions of one tensor beyond the commonest: trigonometry, roots, activations."""

from __future__ import annotations

from .elementwise import Kernel

KERNELS: dict[str, Kernel] = {}
