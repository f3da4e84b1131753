"""Merges independent graphs into one graph (a union), and splits it again. Runs in workers too."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from .graph import Graph, Node, Source


def union(graphs: Sequence[Graph]) -> Graph:
    """Returns the union: the inputs, constants, nodes and outputs of all graphs, in their order.

    The names of the values of graph i get the prefix `g<i>_`. The elements of inputs and constants
    stay the same.
    """
    inputs: list[Source] = []
    constants: list[Source] = []
    nodes: list[Node] = []
    outputs: list[str] = []
    for i, graph in enumerate(graphs):
        before = _prefix(i)
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


def named_apart(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns values of several graphs by their names in the union. values: by name, for each graph."""
    return {_prefix(i) + name: value for i, own in enumerate(values) for name, value in own.items()}


def _prefix(position: int) -> str:
    return "g%d_" % position


def _position(value: str) -> int:
    return int(value[1 : value.index("_")])


def only(whole: Graph, positions: Collection[int]) -> Graph:
    """Returns the part of a union that belongs to the graphs at `positions`, names unchanged."""
    return Graph(
        tuple(s for s in whole.inputs if _position(s.name) in positions),
        tuple(s for s in whole.constants if _position(s.name) in positions),
        tuple(n for n in whole.nodes if _position(n.outputs[0]) in positions),
        tuple(o for o in whole.outputs if _position(o) in positions),
    )


def positions(whole: Graph) -> list[int]:
    """Returns the sorted positions of the graphs in a union, or in a part that `only` returned."""
    return sorted({_position(o) for o in whole.outputs})


def split(whole: Graph) -> dict[int, Graph]:
    """Returns the graphs of a union by position; values keep their names in the union."""
    return {i: only(whole, (i,)) for i in positions(whole)}


def in_turn(values: Sequence[Any], counts: Sequence[int]) -> Iterator[list[Any]]:
    """Yields lists of as many values as `counts` says, one behind the other."""
    left = iter(values)
    for count in counts:
        yield list(islice(left, count))
