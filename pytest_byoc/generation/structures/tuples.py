"""Structures with tuples whose fields are read more than once."""

from __future__ import annotations

from ...core.graph import Graph, TensorType
from ..builder import Builder
from .vocabulary import Vocabulary, fields, need, structure


@structure
def field_returned_twice(b: Builder, v: Vocabulary) -> Graph:
    """A field of a split is returned twice, and read from the tuple each time (class 49)."""
    need(v, "split")
    first, second, _ = fields(b, b.simple(v.unary[0], b.input(TensorType((2, 3), "float32"))), 3, 1)
    return b.graph(first, second, first)


@structure
def joined_with_its_concatenation(b: Builder, v: Vocabulary) -> Graph:
    """A concatenation and its own part are operands of one operator (classes 2, 4). If tuples do
    not belong to regions, a path leads out of the region and back into it."""
    need(v, "concatenate")
    a = b.simple(v.unary[0], b.input(TensorType((1, 3), "float32"), 0.5, 2.0))
    (joined,) = b.node("concatenate", (a, a), {"axis": 0})
    return b.graph(b.node(v.binary, (joined, a), {})[0])
