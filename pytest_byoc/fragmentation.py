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
        return self._assign([], [0] * (regions + len(self._taken)), 0, regions)

    def _assign(self, group: list[int], behind: list[int], used: int, regions: int) -> bool:
        """Nodes are assigned in their order, the host's each to a region of its own, numbered after the
        others. behind: of each region those that it depends on, also by way of others, as bits."""
        self._steps -= 1
        if self._steps < 0:
            return False
        node = len(group)
        if node == len(self._taken):
            return used == regions and all(
                _parts([i for i, g in enumerate(group) if g == r], self._reads) == 1 for r in range(used)
            )
        taken = self._taken[node]
        near = {group[i] for i in self._reads[node]}
        if taken:
            # The regions of what it reads first: those are most likely.
            may = range(min(used + 1, regions))
            choices = [*(r for r in may if r in near), *(r for r in may if r not in near)]
        else:
            choices = [regions + node]
        before = 0
        for r in near:
            before |= behind[r]
        for choice in choices:
            if before >> choice & 1:
                continue
            needed = behind[choice]
            for r in near:
                if r != choice:
                    needed |= behind[r] | 1 << r
            after = [others | needed if others >> choice & 1 else others for others in behind]
            after[choice] = needed
            if self._assign([*group, choice], after, max(used, choice + 1) if taken else used, regions):
                return True
        return False


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
