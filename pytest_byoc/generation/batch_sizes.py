"""Makes the same graph for another batch size."""

from __future__ import annotations

from ..core.graph import Graph
from ..operators.record import TypeRuleError
from .resizing import resized


def batch_size(graph: Graph) -> int | None:
    """Returns the first dimension of the first input; None if there is no such input, if it is a
    scalar, or if its elements are given."""
    lead = graph.inputs[0] if graph.inputs else None
    return lead.type.shape[0] if lead is not None and lead.type.shape and lead.data is None else None


def at_batch(graph: Graph, size: int) -> Graph | None:
    """Returns the graph with a batch of `size`; the batch is the first dimension of the first
    input.

    The other inputs of the same length along their first axis grow with it; if that gives no graph,
    the first input grows alone. Returns None if the type rules reject both graphs (an
    attribute may give the batch size too), or if no node's types depend on the batch. Raises
    ValueError for a smaller size, because indices into the batch would be out of range."""
    batch = batch_size(graph)
    if batch is None:
        return None
    if size <= batch:
        raise ValueError(f"batch size {size} is not larger than {batch}")
    following = [s.name for s in graph.inputs if s.type.shape[:1] == (batch,) and s.data is None]
    for names in (following, following[:1]):
        try:
            larger = resized(graph, {(name, 0): size for name in names})
        except TypeRuleError:
            continue
        if any(a.types != b.types for a, b in zip(larger.nodes, graph.nodes)):
            return larger
    return None
