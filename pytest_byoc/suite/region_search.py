"""Searches for graphs in which the target offloads an operator together with others, in one region."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..core.graph import Graph
from ..examination.partitions import Partition

#: Number of graphs of an operator that are partitioned at once: the first few are often enough.
_AT_ONCE = 6


class RegionSearch:
    """For each operator the graph with the most operators per region, among candidates.

    candidates: returns those of an operator. survey: returns the partitions of graphs.
    """

    def __init__(
        self, candidates: Callable[[str], list[Graph]],
        survey: Callable[[Sequence[Graph]], Sequence[Partition | None]],
    ) -> None:
        self._candidates = candidates
        self._survey = survey
        self._found: dict[str, Graph | None] = {}

    def of(self, operator: str) -> Graph | None:
        """Returns the graph for an operator, or None if no region with it has several operators."""
        self.look_at([operator])
        return self._found[operator]

    def look_at(self, operators: Iterable[str]) -> None:
        """Searches for the graphs of several operators at the same time, which takes fewer surveys."""
        left = {o: sorted(self._candidates(o), key=_size) for o in operators if o not in self._found}
        sizes = dict.fromkeys(left, 1.0)
        self._found.update(dict.fromkeys(left))
        at = 0
        while left:
            # The largest graphs come first: if one of them is a single region, no later one has a larger.
            tried = {operator: graphs[at : at + _AT_ONCE] for operator, graphs in left.items()}
            at += _AT_ONCE
            partitions = iter(self._survey([graph for graphs in tried.values() for graph in graphs]))
            for operator, graphs in tried.items():
                for graph, partition in zip(graphs, partitions):
                    size = _operators_per_region(operator, graph, partition)
                    if size > sizes[operator]:
                        self._found[operator], sizes[operator] = graph, size
            left = {
                operator: graphs for operator, graphs in left.items()
                if len(graphs) > at and sizes[operator] < len(tried[operator][-1].nodes)
            }


def _operators_per_region(operator: str, graph: Graph, partition: Partition | None) -> float:
    """Returns 0 if the operator is not offloaded. Above 1 at least one of the regions has several."""
    inside = [n.op for n, t in zip(graph.nodes, partition.offloaded) if t] if partition else []
    return len(inside) / partition.regions if partition and operator in inside else 0.0


def _size(graph: Graph) -> int:
    return -len(graph.nodes)
