"""Kernels of convolutions in one and three dimensions."""

from __future__ import annotations

from .convolution import conv
from .elementwise import Kernel

KERNELS: dict[str, Kernel] = {"nn.conv1d": conv, "nn.conv3d": conv}
