"""Graphs that are examined beside another one: with other constants, for a larger batch."""

from __future__ import annotations

from dataclasses import replace

from ..core.graph import Graph, Source
from .batch_sizes import at_batch, batch_size

#: Distance between the seeds of a constant and of its counterpart in the twin.
_OTHER = 7919


def larger(graph: Graph) -> Graph | None:
    """The graph for a larger batch, no multiple of its own; None where it has none."""
    batch = batch_size(graph)
    return None if batch is None else at_batch(graph, 2 * batch + 1)


def twin(graph: Graph) -> Graph | None:
    """The graph with other constants in the same places, else for a larger batch: what another model has in
    common with it are names and types. None where neither is to be had."""
    constants = tuple(_renewed(s) for s in graph.constants)
    return replace(graph, constants=constants) if constants != graph.constants else larger(graph)


def _renewed(source: Source) -> Source:
    fixed = source.data is not None or source.low == source.high
    return source if fixed else replace(source, seed=source.seed + _OTHER)
