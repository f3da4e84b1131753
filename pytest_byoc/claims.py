"""What the target takes of a graph, found out by partitioning it: nothing is built or run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .evidence import Evidence, JobReport
from .generation import data
from .generation.patterns import Pattern, parse
from .generation.systematic import default_case
from .graph import Graph
from .worker.client import Worker

#: Operators of which a target will take one.
_COMMON = ("nn.relu", "add", "nn.conv2d", "nn.dense", "nn.softmax")
#: Graphs partitioned in one process. A fork costs more than a partition does.
_AT_ONCE = 50


@dataclass(frozen=True)
class Claim:
    """offloaded: of each node, whether it is in a region. regions: how many there are. composites:
    names of the composites in them."""

    offloaded: tuple[bool, ...]
    regions: int
    composites: frozenset[str]


class Claims:
    """Claims of one target, each graph partitioned once."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._known: dict[str, Claim | None] = {}

    def of(self, graph: Graph) -> Claim | None:
        """None where partitioning fails: what happens there is the examination's business."""
        return self.survey([graph])[0]

    def known(self, graph: Graph) -> Claim | None:
        """As `of`, of a graph that has been surveyed; None for any other."""
        return self._known.get(graph.to_json())

    def survey(self, graphs: Iterable[Graph]) -> list[Claim | None]:
        """The claim on each, as of `of`; those not known yet are partitioned many in one process."""
        keyed = [(g.to_json(), g) for g in graphs]
        new = [(k, g) for k, g in dict(keyed).items() if k not in self._known]
        for start in range(0, len(new), _AT_ONCE):
            self._ask(dict(new[start : start + _AT_ONCE]))
        return [self._known[k] for k, _ in keyed]

    def _ask(self, graphs: dict[str, Graph]) -> None:
        report = self.report(list(graphs.values()))
        regions = {m["value"]["number"]: m for m in report.messages if m.get("fact") == "regions"}
        for number, (key, graph) in enumerate(graphs.items()):
            self._known[key] = None
            if number in regions:
                seen = JobReport([regions[number]])
                evidence = Evidence(graph, [], {}, [], seen, JobReport())
                names = frozenset(c for r in evidence.regions for c in r["composites"])
                self._known[key] = Claim(evidence.offloaded(), len(evidence.regions), names)

    def patterns(self) -> list[Pattern]:
        """The target's patterns, as TVM has them registered; none where there is no such table."""
        simple = [default_case(name, "float32").graph for name in _COMMON]
        for _, described in self.report(simple, "patterns").facts("patterns"):
            return [parse(d["name"], d["nodes"]) for d in described]
        return []

    def composites(self, graphs: Sequence[Graph]) -> list[frozenset[str] | None]:
        """Names of the composites the target makes of each graph; None where partitioning fails."""
        return [None if c is None else c.composites for c in self.survey(graphs)]

    def report(self, graphs: list[Graph], kind: str = "claims") -> JobReport:
        """What the worker says of partitioning the graphs: facts are numbered by their position."""
        entries = [{"graph": g.to_dict(), "constants": data.constants(g)} for g in graphs]
        self._worker.submit({"kind": kind, "graphs": entries})
        return self._worker.collect()
