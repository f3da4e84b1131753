"""Parts of a graph: some of its nodes, as a graph of their own."""

from __future__ import annotations

from typing import Collection

from .graph import Graph, Source


def part(graph: Graph, positions: Collection[int]) -> Graph:
    """Returns the nodes at these positions as a graph.

    Its inputs are the values that they read of others, in the order of their first use; its outputs are
    the values that others, or the graph's outputs, read.
    """
    nodes = [graph.nodes[p] for p in sorted(positions)]
    made = {name for node in nodes for name in node.outputs}
    others = (node for p, node in enumerate(graph.nodes) if p not in positions)
    read = {name for node in others for name in node.inputs} | set(graph.outputs)
    constants = {s.name: s for s in graph.constants}
    inputs = {s.name: s for s in graph.inputs}
    given: dict[str, Source] = {}
    for node in nodes:
        for name in node.inputs:
            if name not in made and name not in constants:
                given.setdefault(name, inputs.get(name) or Source(name, graph.type_of(name)))
    used = {name for node in nodes for name in node.inputs}
    return Graph(
        tuple(given.values()), tuple(s for n, s in constants.items() if n in used), tuple(nodes),
        tuple(name for node in nodes for name in node.outputs if name in read),
    )
