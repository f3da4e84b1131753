"""Extents that are known only when the code runs, as C expressions.

Kernels calculate with extents as with integers, so that most of them do not care which extents are
known.
"""

from __future__ import annotations

from typing import Any, Tuple


class Extent:
    """A C expression of the type int64_t whose value is a length, or is calculated from lengths.

    Two extents are equal if their expressions are; there is no other comparison.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __add__(self, other: Length) -> Length:
        return self if other == 0 else Extent(f"({self} + {other})")

    def __radd__(self, other: Length) -> Length:
        return self if other == 0 else Extent(f"({other} + {self})")

    def __sub__(self, other: Length) -> Length:
        return self if other == 0 else Extent(f"({self} - {other})")

    def __rsub__(self, other: Length) -> Length:
        return Extent(f"({other} - {self})")

    def __neg__(self) -> Length:
        return Extent(f"(-{self})")

    def __mul__(self, other: Length) -> Length:
        return self if other == 1 else Extent(f"({self} * {other})")

    def __rmul__(self, other: Length) -> Length:
        return self if other == 1 else Extent(f"({other} * {self})")

    def __floordiv__(self, other: Length) -> Length:
        # C rounds towards 0, Python down. The divisor is positive.
        return self if other == 1 else Extent(f"({self} / {other} - ({self} % {other} < 0))")

    def __rfloordiv__(self, other: Length) -> Length:
        return Extent(str(other)) // self


# An int or an Extent: whatever calculates with lengths need not know which.
Length = Any
Shape = Tuple[Length, ...]

def least(a: Length, b: Length) -> Length:
    """Returns the smaller of two lengths."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else Extent(f"({a} < {b} ? {a} : {b})")


def greatest(a: Length, b: Length) -> Length:
    """Returns the larger of two lengths."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else Extent(f"({a} > {b} ? {a} : {b})")
