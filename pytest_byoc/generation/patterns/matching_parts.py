"""Attributes of operators that read one value and take matching parts of it, such as both halves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.graph import TensorType

#: The parameters of each part.
Parts = Sequence[Mapping[str, Any]]


def has_parts(operator: str) -> bool:
    """Returns whether calls of an operator can take matching parts of a value."""
    return operator == "strided_slice"


def matching_parts(operator: str, x: TensorType, number: int = 2) -> list[Parts]:
    """Returns ways to take a value apart by that many calls of an operator: parts that lie one behind
    the other, and elements of even and odd index, of the last axis and of the one before. Empty if
    the operator takes no parts, or no axis can be divided."""
    if not has_parts(operator):
        return []
    ways: list[Parts] = []
    for axis in range(x.rank - 1, max(x.rank - 3, -1), -1):
        extent = x.shape[axis]
        for count in dict.fromkeys((number, 2)):
            if extent and extent % count == 0:
                size = extent // count
                ways.append([_slice(axis, begin, begin + size, 1) for begin in range(0, extent, size)])
        if extent % 2 == 0:
            ways.append([_slice(axis, begin, extent, 2) for begin in (0, 1)])
    return ways


def _slice(axis: int, begin: int, end: int, stride: int) -> dict[str, Any]:
    return {"axes": (axis,), "strides": (stride,), "begin": (begin,), "end": (end,)}
