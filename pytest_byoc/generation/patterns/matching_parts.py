"""Attributes of operators that read one value and take matching parts of it, such as both halves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.graph import TensorType

#: The parameters of each part.
Parts = Sequence[Mapping[str, Any]]


def matching_parts(operator: str, x: TensorType) -> list[Parts]:
    """Returns ways to take a value apart by several calls of an operator: halves, and elements of
    even and odd index, of the last axis and of the one before. Empty if the operator takes no
    parts, or no axis has an even extent."""
    if operator != "strided_slice":
        return []
    ways: list[Parts] = []
    for axis in (a for a in range(x.rank - 1, max(x.rank - 3, -1), -1) if x.shape[a] % 2 == 0):
        extent = x.shape[axis]
        ways.append([_slice(axis, begin, begin + extent // 2, 1) for begin in (0, extent // 2)])
        ways.append([_slice(axis, begin, extent, 2) for begin in (0, 1)])
    return ways


def _slice(axis: int, begin: int, end: int, stride: int) -> dict[str, Any]:
    return {"axes": (axis,), "strides": (stride,), "begin": (begin,), "end": (end,)}
