"""Narrows the failure of a deep graph down to the few nodes that show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core.graph import Graph
from ..core.parts import part
from ..generation import data
from ..reference_kernels import Bounded

Arrays = Mapping[str, np.ndarray]
#: Returns whether the target fails a graph with these sets of inputs and these constants.
Fails = Callable[[Graph, Sequence[Arrays], Arrays], bool]


@dataclass(frozen=True)
class Culprit:
    """The first node whose result is wrong in a graph, and the fewest nodes before it that show it.

    position: the node's, counted from 0. graph: the nodes, the last of which is the culprit. inputs,
    constants: the numbers that they have in the whole graph.
    """

    position: int
    graph: Graph
    inputs: Sequence[Arrays]
    constants: Arrays


def find(
    graph: Graph, inputs: Sequence[Arrays], constants: Arrays, known: Sequence[Mapping[str, Bounded]],
    fails: Fails,
) -> Culprit | None:
    """Returns the culprit in a graph that fails; None if no smaller part of it does.

    known: all values of the graph for each set of inputs.
    """
    low, high = 0, len(graph.nodes) - 1
    while low < high:
        middle = (low + high) // 2
        first = _until(graph, middle)
        if fails(first, _of(first, inputs), {s.name: constants[s.name] for s in first.constants}):
            high = middle
        else:
            low = middle + 1
    for count in _counts(high + 1):
        few = _last(graph, high, count)
        given = [{s.name: array(values[s.name]) for s in few.inputs} for values in known]
        own = {s.name: constants[s.name] for s in few.constants}
        if fails(few, given, own):
            return Culprit(high, few, given, own)
    return None


def array(value: Bounded) -> np.ndarray:
    """Returns a value as it is without an error, in its dtype."""
    return value.value.astype(data.numpy_dtype(value.dtype))


def _of(graph: Graph, inputs: Sequence[Arrays]) -> list[Arrays]:
    return [{s.name: given[s.name] for s in graph.inputs} for given in inputs]


def _until(graph: Graph, position: int) -> Graph:
    """Returns what a node's results are computed by."""
    return replace(graph, nodes=graph.nodes[: position + 1], outputs=graph.nodes[position].outputs).needed()


def _counts(most: int) -> list[int]:
    """Returns the numbers of nodes to try: doubled each time."""
    counts = [1]
    while counts[-1] < most:
        counts.append(min(2 * counts[-1], most))
    return counts


def _last(graph: Graph, position: int, count: int) -> Graph:
    """Returns a node and at most so many others, all of them together `count`, that it depends on most
    directly. Its results are the outputs."""
    made = {name: n for n, node in enumerate(graph.nodes[: position + 1]) for name in node.outputs}
    chosen, pending = {position}, [position]
    while pending and len(chosen) < count:
        before = [made[name] for name in graph.nodes[pending.pop(0)].inputs if name in made]
        new = [n for n in dict.fromkeys(before) if n not in chosen][: count - len(chosen)]
        chosen.update(new)
        pending += new
    return replace(part(graph, chosen), outputs=graph.nodes[position].outputs)
