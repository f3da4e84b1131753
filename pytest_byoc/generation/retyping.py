"""Changes sources and nodes of a graph, and infers all types again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..core.graph import Graph, Node, Source, TensorType
from ..operators import OPERATORS
from ..operators.record import TypeRuleError


def with_source(graph: Graph, other: Source) -> Graph | None:
    """Returns the graph with `other` as the source of that name; None if the types do not fit."""
    return resourced(graph, lambda s: other if s.name == other.name else s)


def retyped(graph: Graph, changed: Mapping[int, Node]) -> Graph | None:
    """Returns the graph with some nodes replaced and its types inferred; None if they do not
    fit."""
    types: dict[str, TensorType] = {s.name: s.type for s in graph.sources()}
    nodes = []
    for i, old in enumerate(graph.nodes):
        node = changed.get(i, old)
        try:
            results = OPERATORS[node.op].infer([types[n] for n in node.inputs], node.attrs)
        except (TypeRuleError, KeyError, IndexError, ValueError):
            return None
        if len(results) != len(node.outputs) or any(t.size == 0 for t in results):
            return None
        types.update(zip(node.outputs, results))
        nodes.append(replace(node, types=results))
    return replace(graph, nodes=tuple(nodes))


def resourced(
    graph: Graph, change: Callable[[Source], Source], nodes: Mapping[int, Node] | None = None
) -> Graph | None:
    """Returns the graph with sources changed and nodes replaced; None if the types do not fit."""
    inputs, constants = tuple(map(change, graph.inputs)), tuple(map(change, graph.constants))
    return retyped(replace(graph, inputs=inputs, constants=constants), nodes or {})
