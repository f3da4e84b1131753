"""Tells what random graphs show for the first time, which guides a search for more of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence

from ..core.graph import Graph
from ..examination.outcome import Verdict


class Novelty:
    """The nodes and regions that were seen so far.

    operators: the operators whose nodes count, which the target offloads."""

    def __init__(self, operators: Collection[str]) -> None:
        self._operators = frozenset(operators)
        self._nodes: set[object] = set()
        self._regions: set[tuple[str, ...]] = set()

    def pick(self, graphs: Sequence[Graph]) -> tuple[Graph, int]:
        """Returns the graph with most new nodes (told apart by operator, dtypes and ranks of
        operands, and attributes), and their number. They are seen from then on."""
        new = [self._counted(graph) - self._nodes for graph in graphs]
        best = max(range(len(graphs)), key=lambda at: len(new[at]))
        self._nodes |= new[best]
        return graphs[best], len(new[best])

    def _counted(self, graph: Graph) -> set[object]:
        return {node for node in described(graph) if node[0] in self._operators}

    def new_regions(self, verdicts: Sequence[Verdict]) -> int:
        """Returns the number of new regions of graphs (told apart by their operators). They are
        seen from then on."""
        known = len(self._regions)
        for verdict in verdicts:
            self._regions.update(_regions_of(verdict))
        return len(self._regions) - known


def described(graph: Graph) -> Iterator[tuple[str, tuple[str, ...], tuple[int, ...], str]]:
    """Yields, for each node of a graph, its operator, the dtypes and the ranks of its operands, and
    its attributes."""
    for node in graph.nodes:
        types = [graph.type_of(i) for i in node.inputs]
        dtypes, ranks = tuple(t.dtype for t in types), tuple(t.rank for t in types)
        yield node.op, dtypes, ranks, json.dumps(node.attrs, sort_keys=True)


def _regions_of(verdict: Verdict) -> Iterator[tuple[str, ...]]:
    """Yields the operators of each region, in the order of the graph."""
    regions: dict[int, list[str]] = {}
    for node, region in zip(verdict.graph.nodes, verdict.placement):
        if region is not None:
            regions.setdefault(region, []).append(node.op)
    return map(tuple, regions.values())
