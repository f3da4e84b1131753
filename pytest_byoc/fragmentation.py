"""How many regions the operators that a target takes of a graph need at least."""

from __future__ import annotations

from collections.abc import Sequence

from .graph import Graph

#: Steps of the search after which what has been found counts.
_STEPS = 1000
#: Nodes of a graph that is searched at all: each step looks at all of them.
_NODES = 32


def smallest(graph: Graph, taken: Sequence[bool], found: int) -> int:
    """The least number of regions that hold the nodes taken, at most `found`, the number there is.

    A region is connected by the values its nodes pass to each other, as TVM's passes merge them, and no
    region depends on itself by way of others or of the host's nodes. Whatever is returned can be had; of
    graphs too large to be searched it may not be the least.
    """
    if len(graph.nodes) > _NODES:
        return found
    search = _Search(graph, taken)
    for regions in range(max(search.components(), 1), found):
        if search.reaches(regions):
            return regions
    return found


class _Search:
    def __init__(self, graph: Graph, taken: Sequence[bool]) -> None:
        made = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs}
        #: Of each node those whose results it reads.
        self._reads = [sorted({made[n] for n in node.inputs if n in made}) for node in graph.nodes]
        self._taken = list(taken)
        self._steps = 0

    def components(self) -> int:
        """In how many parts the nodes taken fall apart: no region holds two."""
        return _parts([i for i, t in enumerate(self._taken) if t], self._reads)

    def reaches(self, regions: int) -> bool:
        """Whether so many are enough, as far as was searched."""
        self._steps = _STEPS
        return self._assign(0, [], 0, regions)

    def _assign(self, node: int, group: list[int], used: int, regions: int) -> bool:
        """Nodes are assigned in their order; the host's are regions of their own, with numbers below zero."""
        self._steps -= 1
        if self._steps < 0:
            return False
        if node == len(self._taken):
            return used == regions and all(
                _parts([i for i, g in enumerate(group) if g == r], self._reads) == 1 for r in range(used)
            )
        choices = range(min(used + 1, regions)) if self._taken[node] else (-1 - node,)
        # The regions of what it reads first: those are most likely.
        near = {group[i] for i in self._reads[node]}
        for choice in sorted(choices, key=lambda r: r not in near):
            tried = [*group, choice]
            if self._in_order(tried) and self._assign(
                node + 1, tried, max(used, choice + 1), regions
            ):
                return True
        return False

    def _in_order(self, group: list[int]) -> bool:
        """Whether the regions so far can be put in an order in which each comes after what it reads."""
        needs: dict[int, set[int]] = {g: set() for g in group}
        for i, g in enumerate(group):
            needs[g] |= {group[j] for j in self._reads[i]} - {g}
        while needs:
            ready = {g for g, others in needs.items() if not others}
            if not ready:
                return False
            needs = {g: others - ready for g, others in needs.items() if g not in ready}
        return True


def _parts(nodes: Sequence[int], reads: Sequence[Sequence[int]]) -> int:
    """Number of connected parts of some nodes."""
    part = {i: i for i in nodes}

    def root(i: int) -> int:
        while part[i] != i:
            i = part[i]
        return i

    for i in nodes:
        for j in reads[i]:
            if j in part:
                part[root(i)] = root(j)
    return sum(part[i] == i for i in nodes)
