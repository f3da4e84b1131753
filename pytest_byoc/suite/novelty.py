"""Counts what random graphs show for the first time, which guides a search for more of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from ..core.graph import Graph
from ..examination.outcome import Verdict


class Novelty:
    """The operators and regions that were seen so far."""

    def __init__(self) -> None:
        self._seen: dict[str, set[object]] = {"new operators": set(), "new regions": set()}

    def add(self, verdicts: Iterable[Verdict]) -> dict[str, int]:
        """Adds the graphs of some verdicts. Returns the number of operators (told apart by dtypes
        and ranks of operands, and by attributes) and of regions (told apart by their operators)
        that were not seen before."""
        known = {label: len(seen) for label, seen in self._seen.items()}
        for verdict in verdicts:
            self._seen["new operators"].update(operators_of(verdict.graph))
            self._seen["new regions"].update(_regions_of(verdict))
        return {label: len(seen) - known[label] for label, seen in self._seen.items()}


def operators_of(graph: Graph) -> Iterator[tuple[str, tuple[str, ...], tuple[int, ...], str]]:
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
