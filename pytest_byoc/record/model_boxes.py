"""Folds the operators of a model into a few boxes, for a drawing: the operators of a region, operators left
to TVM that follow each other, and sequences of boxes that repeat.

No boxes depend on each other in a circle. A region becomes one box if no other operators lie between two of
its own; other operators become one box if no way from one to another leaves the box; further boxes are
folded only if they follow each other in an order of computation.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

#: The most boxes of a drawing.
MOST = 60
#: The fewest repetitions of a sequence of boxes that become one box; the fewest where there are too many
#: boxes otherwise.
_OFTEN, _TWICE = 3, 2
#: The most boxes in a sequence that repeats.
_LONGEST = 64
#: How often repetitions are looked for: what repeats may consist of repetitions.
_PASSES = 4

Reads = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Run:
    """Operators in one region, or left to TVM.

    region: None for operators that are left to TVM. nodes: the positions of the operators, in order.
    """

    region: int | None
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class Box:
    """A box of the drawing.

    runs: its operators, in an order of computation. times: how often the runs repeat.
    """

    runs: tuple[Run, ...]
    times: int = 1

    @property
    def nodes(self) -> Iterator[int]:
        return (node for run in self.runs for node in run.nodes)

    @property
    def once(self) -> tuple[Run, ...]:
        """Returns the runs of the first repetition."""
        return self.runs[: len(self.runs) // self.times]


def boxes(
    reads: Reads, places: Sequence[int | None], operators: Sequence[str], most: int = MOST
) -> list[Box]:
    """Returns at most `most` boxes that hold each node once, in an order of computation.

    reads: for each node the positions of the nodes that it reads, which are before it. places: for each node
    its region, or None. operators: for each node the name of its operator.
    """
    found = [Box((run,)) for run in _runs(reads, places)]
    for often in (_OFTEN, _TWICE):
        for _ in range(_PASSES if often == _OFTEN or len(found) > most else 0):
            before = len(found)
            found = _without_repetitions(found, often, reads, operators)
            if len(found) == before:
                break
    return _at_most(most, found)


def edges(found: Sequence[Box], reads: Reads) -> dict[tuple[int, int], set[int]]:
    """Returns for each pair of boxes, by their positions, the nodes of the first that the second reads, if
    there are any."""
    own = {node: position for position, box in enumerate(found) for node in box.nodes}
    passed: dict[tuple[int, int], set[int]] = {}
    for node, operands in enumerate(reads):
        for operand in operands:
            if own[operand] != own[node]:
                passed.setdefault((own[operand], own[node]), set()).add(operand)
    return passed


# --- runs ----------------------------------------------------------------------------------------


def _runs(reads: Reads, places: Sequence[int | None]) -> list[Run]:
    """Returns the nodes in runs, in an order of computation."""
    part = _whole_regions(reads, places)
    before = _between(part, reads)
    # A part joins those of its place that it reads, unless a way leads to it through another place: that
    # makes it deeper. So each edge between two runs leads to a greater depth.
    depth: dict[int, int] = {}
    run = list(range(len(places)))
    for own in _in_order(before):
        depth[own] = max((depth[b] + (places[b] != places[own]) for b in before[own]), default=0)
        for b in before[own]:
            if places[b] == places[own] and depth[b] == depth[own]:
                run[_root(run, b)] = _root(run, own)
    runs = [_root(run, p) for p in part]
    members: dict[int, list[int]] = {}
    for node, own in enumerate(runs):
        members.setdefault(own, []).append(node)
    return [Run(places[own], tuple(members[own])) for own in _in_order(_between(runs, reads))]


def _whole_regions(reads: Reads, places: Sequence[int | None]) -> list[int]:
    """Returns for each node the first node of its region; or the node itself where it is left to TVM, or
    where the region as one box may depend on itself."""
    firsts: dict[int, int] = {}
    for node, place in enumerate(places):
        if place is not None:
            firsts.setdefault(place, node)
    part = [node if place is None else firsts[place] for node, place in enumerate(places)]
    before = _between(part, reads)
    after: dict[int, set[int]] = {own: set() for own in before}
    for own, needed in before.items():
        for b in needed:
            after[b].add(own)
    # Neither what precedes all circles nor what follows them lies on one.
    outside = {*_in_order(before), *_in_order(after)}
    return [own if own in outside else node for node, own in enumerate(part)]


def _between(part: Sequence[int], reads: Reads) -> dict[int, set[int]]:
    """Returns for each part the other parts that its nodes read."""
    before: dict[int, set[int]] = {own: set() for own in part}
    for own, operands in zip(part, reads):
        before[own].update(part[o] for o in operands if part[o] != own)
    return before


def _in_order(before: dict[int, set[int]]) -> Iterator[int]:
    """Yields the parts in an order of computation, otherwise by their numbers; not those that lie on a circle
    or behind one.

    before: for each part those that it reads.
    """
    after: dict[int, list[int]] = {own: [] for own in before}
    left = {own: len(needed) for own, needed in before.items()}
    for own, needed in before.items():
        for b in needed:
            after[b].append(own)
    ready = [own for own, n in left.items() if not n]
    heapq.heapify(ready)
    while ready:
        own = heapq.heappop(ready)
        yield own
        for a in after[own]:
            left[a] -= 1
            if not left[a]:
                heapq.heappush(ready, a)


def _root(joined: list[int], own: int) -> int:
    while joined[own] != own:
        joined[own] = joined[joined[own]]
        own = joined[own]
    return own


# --- repetitions ---------------------------------------------------------------------------------


def _without_repetitions(
    found: list[Box], often: int, reads: Reads, operators: Sequence[str]
) -> list[Box]:
    """Returns the boxes with sequences that repeat as one box each, those first that leave the fewest boxes.

    often: the fewest repetitions.
    """
    numbers: dict[Hashable, int] = {}
    kinds = [numbers.setdefault(_kind(box, operators), len(numbers)) for box in found]
    back: list[list[int]] = [[] for _ in found]
    for a, b in sorted(edges(found, reads), reverse=True):
        back[b].append(b - a)
    spans: list[tuple[int, int, int]] = []
    for period in range(1, min(_LONGEST, len(found) // often) + 1):
        # Operands from before the previous repetition do not tell one from the other.
        near = [(kind, b[: bisect_right(b, period)]) for kind, b in zip(kinds, back)]
        for start, end in _stretches([a == b for a, b in zip(near, near[period:])]):
            times = (end - start) // period + 1
            if times >= often:
                spans.append((start, period, times))
    folded: dict[int, tuple[int, int]] = {}
    taken = [False] * len(found)
    for start, period, times in sorted(spans, key=lambda s: (s[1] - s[1] * s[2], s[1], s[0])):
        if not any(taken[start : start + period * times]):
            taken[start : start + period * times] = [True] * (period * times)
            folded[start] = (period, times)
    result, position = [], 0
    while position < len(found):
        period, times = folded.get(position, (1, 1))
        some = found[position : position + period * times]
        result.append(some[0] if times == 1 else Box(tuple(r for box in some for r in box.runs), times))
        position += period * times
    return result


def _kind(box: Box, operators: Sequence[str]) -> Hashable:
    """Returns what a box has in common with others that look like it."""
    runs = [(run.region is None, tuple(operators[node] for node in run.nodes)) for run in box.once]
    return box.times, tuple(runs)


def _stretches(flags: Iterable[bool]) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of each stretch of true flags."""
    start, position = -1, -1
    for position, flag in enumerate(flags):
        if flag and start < 0:
            start = position
        elif not flag and start >= 0:
            yield start, position
            start = -1
    if start >= 0:
        yield start, position + 1


# --- the most boxes ------------------------------------------------------------------------------


def _at_most(most: int, found: list[Box]) -> list[Box]:
    """Returns at most `most` boxes: two that follow each other become one, those of the fewest operators
    first."""
    found = list(found)
    sizes = [sum(len(run.nodes) for run in box.runs) for box in found]
    while len(found) > most:
        at = min(range(len(found) - 1), key=lambda i: sizes[i] + sizes[i + 1])
        found[at : at + 2] = [Box(found[at].runs + found[at + 1].runs)]
        sizes[at : at + 2] = [sizes[at] + sizes[at + 1]]
    return found
