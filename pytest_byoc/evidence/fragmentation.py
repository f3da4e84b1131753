"""How many regions the operators that a target takes of a graph need at least."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

from ..core.graph import Graph


def smallest(graph: Graph, placement: Sequence[int | None], found: int) -> int:
    """The least number of regions that hold the nodes taken, at most `found`, the number there is.

    placement: of each node, the region that is known to hold it, or None. A region that is known to hold none
    holds a part of what a node was lowered into: which parts are whose is not known, nor what would do.
    A region is connected by the values its nodes pass to each other, as TVM's passes merge them, and no
    region depends on itself by way of others or of the host's nodes. Whatever is returned can be had; it is
    not the least where merging two by two ends with more than the least that is thinkable.
    """
    taken = [region is not None for region in placement]
    if len(set(placement) - {None}) < found:
        return found
    made = {name: i for i, node in enumerate(graph.nodes) for name in node.outputs}
    reads = [sorted({made[n] for n in node.inputs if n in made}) for node in graph.nodes]
    passed = [(i, j) for j, t in enumerate(taken) if t for i in reads[j] if taken[i]]
    least = _least(taken, reads, passed)
    for edges in (passed, passed[::-1]):
        if least < found:
            found = min(found, _merged(taken, reads, edges))
    return found


def _least(
    taken: Sequence[bool], reads: Sequence[Sequence[int]], passed: Iterable[tuple[int, int]]
) -> int:
    """No fewer will do: none holds nodes that no values connect, nor two of which one depends on the other by
    way of something else."""
    part = list(range(len(taken)))
    for i, j in passed:
        part = [part[i] if p == part[j] else p for p in part]
    parts = {p for p, t in zip(part, taken) if t}
    return sum(1 + _departures(p, part, taken, reads) for p in parts)


def _departures(
    own: int, part: Sequence[int], taken: Sequence[bool], reads: Sequence[Sequence[int]]
) -> int:
    """How often, at most, values on one way leave a part of the graph and come back."""
    inside = [t and p == own for p, t in zip(part, taken)]
    left: list[int] = []
    for i, operands in enumerate(reads):
        ways = [left[j] + (inside[i] and not inside[j]) for j in operands if left[j] >= 0]
        left.append(max(ways, default=0 if inside[i] else -1))
    return max(n for n, within in zip(left, inside) if within)


def _merged(
    taken: Sequence[bool], reads: Sequence[Sequence[int]], edges: Sequence[tuple[int, int]]
) -> int:
    """How many regions there are once no two that pass a value can be one, merged in that order."""
    region = list(range(len(taken)))
    progress = True
    while progress:
        progress = False
        for i, j in edges:
            if region[i] == region[j]:
                continue
            merged = [region[i] if r == region[j] else r for r in region]
            if _can_be_ordered(merged, reads):
                region, progress = merged, True
    return len({r for r, t in zip(region, taken) if t})


def _can_be_ordered(region: Sequence[int], reads: Sequence[Sequence[int]]) -> bool:
    """Whether none depends on itself."""
    before: dict[Hashable, set[int]] = {r: set() for r in region}
    for own, operands in zip(region, reads):
        before[own].update(region[j] for j in operands if region[j] != own)
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        return False
    return True
