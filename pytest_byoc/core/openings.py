"""Openings of a graph: extents of its inputs that have no fixed size when it is compiled."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from .graph import Graph


class OpenExtent(NamedTuple):
    """An open extent: that of an axis of an input is `variable` + `plus`."""

    input: str
    axis: int
    variable: str
    plus: int = 0

    @property
    def text(self) -> str:
        return "%s+%d" % (self.variable, self.plus) if self.plus else self.variable


class Opening(NamedTuple):
    """A graph whose extents are open, and the same graph with larger extents.

    graph: the graph, with attributes that are right for all extents.
    """

    extents: Sequence[OpenExtent]
    graph: Graph
    larger: Graph


def shapes_in_words(graph: Graph, extents: Sequence[OpenExtent]) -> str:
    """Returns the types of the inputs with open extents, as in "%x0: float32[n,4]"."""
    texts = []
    for source in graph.inputs:
        own = {e.axis: e.text for e in extents if e.input == source.name}
        if own:
            shape = ",".join(own.get(axis, str(d)) for axis, d in enumerate(source.type.shape))
            texts.append("%%%s: %s[%s]" % (source.name, source.type.dtype, shape))
    return ", ".join(texts)


def sizes_in_words(graph: Graph, extents: Sequence[OpenExtent]) -> str:
    """Returns the values of the variables for a graph, as in "n=3, m=4"."""
    sizes = {e.variable: graph.type_of(e.input).shape[e.axis] - e.plus for e in extents}
    return ", ".join("%s=%d" % pair for pair in sizes.items())
