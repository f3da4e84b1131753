"""Lists which values of a model a run passes into its regions and out of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..core.graph import Graph
from ..evidence.placement import type_bytes

#: The most kinds of cuts that are listed, and the most readers of a value.
MOST, _READERS = 100, 4
#: What stands for an operator where the graph is given a value or returns it.
INPUT, OUTPUT = "input", "output"


class End(NamedTuple):
    """An end of a cut: the operator that makes or reads the value, and its region (None: TVM's side)."""

    operator: str
    region: int | None

    def to_dict(self) -> dict[str, Any]:
        return {"operator": self.operator, "region": self.region}


class Cut(NamedTuple):
    """A value that crosses a boundary. bytes: how many a run passes, into all regions and out of one."""

    value: str
    type: str
    bytes: int
    maker: End
    readers: tuple[End, ...]

    @property
    def kind(self) -> tuple[Any, ...]:
        """Returns what cuts have in common that differ in the value and in the numbers of regions."""
        ends = (self.maker, *self.readers)
        return self.type, self.bytes, tuple((end.operator, end.region is None) for end in ends)


def cuts(graph: Graph, places: Sequence[int | None]) -> list[dict[str, Any]]:
    """Returns the cuts of a model (`cuts` in report.schema.json), those of the most bytes first; equal ones
    are listed once with their number. places: for each node its region, or None."""
    kinds: dict[tuple[Any, ...], list[Cut]] = {}
    for cut in _cuts(graph, places):
        kinds.setdefault(cut.kind, []).append(cut)
    alike = sorted(kinds.values(), key=lambda some: -some[0].bytes * len(some))
    return [
        {
            "value": first.value, "type": first.type, "count": len(some), "bytes": first.bytes * len(some),
            "from": first.maker.to_dict(), "to": [end.to_dict() for end in first.readers[:_READERS]],
        }
        for some in alike[:MOST] for first in some[:1]
    ]


def _cuts(graph: Graph, places: Sequence[int | None]) -> Iterator[Cut]:
    makers = {s.name: End(INPUT, None) for s in graph.inputs}
    readers: dict[str, dict[End, None]] = {}
    for node, place in zip(graph.nodes, places):
        makers.update((name, End(node.op, place)) for name in node.outputs)
        for name in node.inputs:
            readers.setdefault(name, {}).setdefault(End(node.op, place))
    for name in graph.outputs:
        readers.setdefault(name, {}).setdefault(End(OUTPUT, None))
    for name, maker in makers.items():
        across = [end for end in readers.get(name, ()) if end.region != maker.region]
        # A region is passed a value once, however many of its operators read it.
        regions: dict[int, End] = {}
        for end in across:
            if end.region is not None:
                regions.setdefault(end.region, end)
        times = len(regions) + (maker.region is not None and bool(across))
        if times:
            host = (end for end in across if end.region is None)
            type_ = str(graph.type_of(name))
            yield Cut(name, type_, type_bytes(type_) * times, maker, (*regions.values(), *host))
