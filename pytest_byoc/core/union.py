"""Several graphs side by side in one, and each of them again. Runs in the workers too."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from .graph import Graph, Node, Source


def union(graphs: Sequence[Graph]) -> Graph:
    """A graph that computes what each of them does: their inputs, constants, nodes and outputs, in their
    order. Values of the graph at position i are named as there, after `g<i>_`; elements stay the same."""
    inputs: list[Source] = []
    constants: list[Source] = []
    nodes: list[Node] = []
    outputs: list[str] = []
    for i, graph in enumerate(graphs):
        before = "g%d_" % i
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


def _position(value: str) -> int:
    return int(value[1 : value.index("_")])


def only(whole: Graph, positions: Collection[int]) -> Graph:
    """What is left of a union without the graphs at other positions: names stay as they are."""
    return Graph(
        tuple(s for s in whole.inputs if _position(s.name) in positions),
        tuple(s for s in whole.constants if _position(s.name) in positions),
        tuple(n for n in whole.nodes if _position(n.outputs[0]) in positions),
        tuple(o for o in whole.outputs if _position(o) in positions),
    )


def positions(whole: Graph) -> list[int]:
    """Of which graphs there is something in a union, or in what `only` has left of it."""
    return sorted({_position(o) for o in whole.outputs})


def split(whole: Graph) -> dict[int, Graph]:
    """By its position each graph of a union, its values named as there."""
    return {i: only(whole, (i,)) for i in positions(whole)}
