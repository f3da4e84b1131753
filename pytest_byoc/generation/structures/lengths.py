"""Structures of sequences, whose length is open when a model is compiled.

The check `dynamic` leaves it open, alone and with the batch."""

from __future__ import annotations

from ...core.graph import Graph, TensorType
from ..builder import Builder
from .vocabulary import Vocabulary, need, structure


@structure
def appended(b: Builder, v: Vocabulary) -> Graph:
    """One row is appended to each sequence of a cache: n rows become n + 1 (classes 3, 43)."""
    need(v, "concatenate")
    cache, new = (b.input(TensorType((2, rows, 3), "float32")) for rows in (4, 1))
    y = b.node("concatenate", (cache, new), {"axis": 1})[0]
    return b.graph(b.simple(v.unary[0], y), y)


@structure
def heads_split(b: Builder, v: Vocabulary) -> Graph:
    """Rows are divided into heads, which become batches: a reshape multiplies two extents (classes
    3, 10)."""
    need(v, "reshape", "transpose")
    x = b.input(TensorType((2, 5, 6), "float32"))
    y = b.simple("reshape", x, newshape=(2, 5, 2, 3))
    y = b.simple("transpose", y, axes=(0, 2, 1, 3))
    y = b.simple(v.unary[0], b.simple("reshape", y, newshape=(4, 5, 3)))
    return b.graph(b.simple("reshape", y, newshape=(2, 2, 15)))
