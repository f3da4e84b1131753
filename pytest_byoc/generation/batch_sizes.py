"""Makes the same graph for another batch size."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..core.graph import Graph, Node, Source, TensorType
from ..operators import OPERATORS
from ..operators.record import TypeRuleError


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
            resized = _resized(graph, names, size)
        except TypeRuleError:
            continue
        if any(a.types != b.types for a, b in zip(resized.nodes, graph.nodes)):
            return resized
    return None


def _resized(graph: Graph, names: Collection[str], size: int) -> Graph:
    inputs = tuple(_at(s, size) if s.name in names else s for s in graph.inputs)
    types = {s.name: s.type for s in (*inputs, *graph.constants)}
    nodes: list[Node] = []
    for node in graph.nodes:
        results = OPERATORS[node.op].infer([types[i] for i in node.inputs], node.attrs)
        if not OPERATORS[node.op].accepts(types[node.inputs[0]]) or len(results) != len(node.outputs):
            raise TypeRuleError(f"{node.op} does not accept {types[node.inputs[0]]}")
        types.update(zip(node.outputs, results))
        nodes.append(replace(node, types=results))
    return Graph(inputs, graph.constants, tuple(nodes), graph.outputs)


def _at(source: Source, size: int) -> Source:
    return replace(source, type=TensorType((size, *source.type.shape[1:]), source.type.dtype))
