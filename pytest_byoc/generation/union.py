"""Several graphs side by side in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..graph import Graph, Node, Source


def union(graphs: Sequence[Graph]) -> Graph:
    """A graph that computes what each of them does: their inputs, constants, nodes and outputs, in their
    order. Values of the graph at position i are named as there, after `g<i>_`; elements stay the same."""
    inputs: list[Source] = []
    constants: list[Source] = []
    nodes: list[Node] = []
    outputs: list[str] = []
    for i, graph in enumerate(graphs):
        before = f"g{i}_"
        inputs += [replace(s, name=before + s.name) for s in graph.inputs]
        constants += [replace(s, name=before + s.name) for s in graph.constants]
        nodes += [
            replace(
                n,
                inputs=tuple(before + name for name in n.inputs),
                outputs=tuple(before + name for name in n.outputs),
            )
            for n in graph.nodes
        ]
        outputs += [before + name for name in graph.outputs]
    return Graph(tuple(inputs), tuple(constants), tuple(nodes), tuple(outputs))
