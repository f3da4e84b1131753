"""Calculates the least number of regions that can hold the offloaded nodes of a graph."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from ..core.graph import Graph


def smallest(graph: Graph, placement: Sequence[int | None], count: int) -> int:
    """Returns the least number of regions that can hold the offloaded nodes, at most `count`.

    placement: for each node the position of the region that holds it, or None. count: the actual
    number of regions. It is returned if one of them holds no node: then a node was lowered into
    several parts, and it is unknown which regions could be merged.

    The nodes of a region are connected by the values that they pass to each other, as TVM's passes
    merge them, and no region depends on itself through other regions or the host's nodes. The
    returned number is always possible. It may not be the least, since regions are merged greedily,
    two at a time.
    """
    offloaded = [region is not None for region in placement]
    if len(set(placement) - {None}) < count:
        return count
    producers = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs}
    reads = [sorted({producers[n] for n in node.inputs if n in producers}) for node in graph.nodes]
    passed = [(i, j) for j, t in enumerate(offloaded) if t for i in reads[j] if offloaded[i]]
    least = _least(offloaded, reads, passed)
    for edges in (passed, passed[::-1]):
        if least < count:
            count = min(count, _merged(offloaded, reads, edges))
    return count


def _least(
    offloaded: Sequence[bool], reads: Sequence[Sequence[int]], passed: Iterable[tuple[int, int]]
) -> int:
    """Returns a lower bound of the number of regions.

    A region holds only nodes that are connected by values, and no two nodes of which one depends on
    the other through a node outside of the region. offloaded: for each node, whether it is so.
    reads: for each node, the positions of the nodes that it reads. passed: the pairs of offloaded
    nodes of which the second reads the first.
    """
    part = list(range(len(offloaded)))
    for i, j in passed:
        part = [part[i] if p == part[j] else p for p in part]
    parts = {p for p, t in zip(part, offloaded) if t}
    return sum(1 + _departures(p, part, offloaded, reads) for p in parts)


def _departures(
    own: int, part: Sequence[int], offloaded: Sequence[bool], reads: Sequence[Sequence[int]]
) -> int:
    """Returns how many times, at most, a path through the graph leaves a part and returns to it."""
    inside = [t and p == own for p, t in zip(part, offloaded)]
    left: list[int] = []
    for i, operands in enumerate(reads):
        ways = [left[j] + (inside[i] and not inside[j]) for j in operands if left[j] >= 0]
        left.append(max(ways, default=0 if inside[i] else -1))
    return max(n for n, within in zip(left, inside) if within)


def _merged(
    offloaded: Sequence[bool], reads: Sequence[Sequence[int]], edges: Sequence[tuple[int, int]]
) -> int:
    """Returns the number of regions after merging along the edges, in their order, if possible."""
    region = list(range(len(offloaded)))
    progress = True
    while progress:
        progress = False
        for i, j in edges:
            if region[i] == region[j]:
                continue
            merged = [region[i] if r == region[j] else r for r in region]
            if _can_be_ordered(merged, reads):
                region, progress = merged, True
    return len({r for r, t in zip(region, offloaded) if t})


def _can_be_ordered(region: Sequence[int], reads: Sequence[Sequence[int]]) -> bool:
    """Returns whether no region depends on itself.

    region: for each node the number of its region; a node of the host is a region of its own.
    """
    before: dict[Hashable, set[int]] = {r: set() for r in region}
    for own, operands in zip(region, reads):
        before[own].update(region[j] for j in operands if region[j] != own)
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        return False
    return True
