"""Graphs that a target's partitioner really takes for its patterns, found by asking it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...graph import Graph
from .instance import NoInstance, instance
from .tree import Pattern, Way, ways

#: Graphs tried for each way of a pattern, one round after the other, until one is matched.
ROUNDS = (range(4), range(4, 20), range(20, 60))
#: After a pattern has been matched, its other ways are not looked for any further than this round.
_PATIENCE = 2

_RAISES = "partitioning raises"

#: Names of the composites the partitioner makes of each graph; None where it fails.
Matches = Callable[[Sequence[Graph]], "list[frozenset[str] | None]"]


@dataclass(frozen=True)
class Fragment:
    """A graph that matches. way: which of the pattern's alternatives it takes."""

    pattern: str
    way: str
    graph: Graph


@dataclass
class Found:
    """What became of one pattern. reason: why there is no fragment, in words."""

    pattern: str
    fragments: list[Fragment] = field(default_factory=list)
    reason: str = ""


def search(pattern: Pattern, ir: str, matches: Matches) -> Found:
    """For each way of matching a pattern, a graph that the target takes for it."""
    found = Found(pattern.name)
    open_ways = ways(pattern)
    seen: set[str] = set()
    why: list[str] = []
    for number, seeds in enumerate(ROUNDS):
        if found.fragments and number >= _PATIENCE:
            break
        left: list[Way] = []
        for way in open_ways:
            graphs = _instances(pattern, way, ir, seeds, why)
            taken = matches(graphs)
            hit = next((g for g, t in zip(graphs, taken) if t is not None and pattern.name in t), None)
            if hit is not None:
                found.fragments.append(Fragment(pattern.name, _label(way), hit))
                continue
            left.append(way)
            seen.update(name for t in taken if t for name in t)
            if graphs and all(t is None for t in taken) and _RAISES not in why:
                why.append(_RAISES)
        open_ways = left
    if not found.fragments:
        found.reason = _reason(pattern, seen, why)
    return found


def _instances(
    pattern: Pattern, way: Way, ir: str, seeds: range, why: list[str]
) -> list[Graph]:
    graphs: dict[Graph, None] = {}
    for seed in seeds:
        try:
            graphs[instance(pattern, way, ir, seed)] = None
        except NoInstance as e:
            if str(e) not in why:
                why.append(str(e))
    return list(graphs)


def _label(way: Way) -> str:
    return "-".join(f"{n}.{b}" for n, b in sorted(way.items())) or "first"


def _reason(pattern: Pattern, seen: set[str], why: list[str]) -> str:
    if seen:
        return f"graphs of its structure are taken for {', '.join(sorted(seen))}"
    if why:
        return "; ".join(why[:3])
    return "no graph of its structure is taken: its check refuses all that were tried"
