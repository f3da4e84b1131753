"""The same graph for another batch size."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..core.graph import Graph, Node, Source, TensorType
from ..operators import OPERATORS
from ..operators.record import TypeRuleError


def batch_size(graph: Graph) -> int | None:
    """The first dimension of the first input; None where there is none, or its elements are given."""
    lead = graph.inputs[0] if graph.inputs else None
    return lead.type.shape[0] if lead is not None and lead.type.shape and lead.data is None else None


def at_batch(graph: Graph, size: int) -> Graph | None:
    """The graph with its batch, the first dimension of its first input, made larger: to `size`. Of the other
    inputs, those of the same length along theirs follow, or none does. None where that is no legal graph
    (an attribute gives the batch size too), or nothing depends on it.

    Raises ValueError for a smaller size: what were indices into the batch would no longer be."""
    batch = batch_size(graph)
    if batch is None:
        return None
    if size <= batch:
        raise ValueError(f"batch size {size} is not larger than {batch}")
    following = [s.name for s in graph.inputs if s.type.shape[:1] == (batch,) and s.data is None]
    for names in (following, following[:1]):
        try:
            found = _resized(graph, names, size)
        except TypeRuleError:
            continue
        if any(a.types != b.types for a, b in zip(found.nodes, graph.nodes)):
            return found
    return None


def _resized(graph: Graph, names: Collection[str], size: int) -> Graph:
    inputs = tuple(_at(s, size) if s.name in names else s for s in graph.inputs)
    types = {s.name: s.type for s in (*inputs, *graph.constants)}
    nodes: list[Node] = []
    for node in graph.nodes:
        made = OPERATORS[node.op].infer([types[i] for i in node.inputs], node.attrs)
        if not OPERATORS[node.op].accepts(types[node.inputs[0]]) or len(made) != len(node.outputs):
            raise TypeRuleError(f"{node.op} does not take {types[node.inputs[0]]}")
        types.update(zip(node.outputs, made))
        nodes.append(replace(node, types=made))
    return Graph(inputs, graph.constants, tuple(nodes), graph.outputs)


def _at(source: Source, size: int) -> Source:
    return replace(source, type=TensorType((size, *source.type.shape[1:]), source.type.dtype))
