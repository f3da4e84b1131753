"""Variants of a graph that are examined with it: with other constants, or for a larger batch."""

from __future__ import annotations

from dataclasses import replace

from ..core.graph import Graph, Source
from .batch_sizes import at_batch, batch_size

#: The difference between the seeds of a constant and of its counterpart in the twin.
_OTHER = 7919


def larger(graph: Graph) -> Graph | None:
    """Returns the graph for a batch of twice its own plus one; None if there is no such graph."""
    batch = batch_size(graph)
    return None if batch is None else at_batch(graph, 2 * batch + 1)


def twin(graph: Graph) -> Graph | None:
    """Returns the graph with other constants in the same places, or else for a larger batch; None
    if neither is possible. Another model may have just the names and types in common with it."""
    constants = tuple(_renewed(s) for s in graph.constants)
    return replace(graph, constants=constants) if constants != graph.constants else larger(graph)


def _renewed(source: Source) -> Source:
    fixed = source.data is not None or source.low == source.high
    return source if fixed else replace(source, seed=source.seed + _OTHER)
