"""What the target takes of a graph, found out by partitioning it: nothing is built or run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.graph import Graph
from ..core.job_report import JobReport
from ..evidence.evidence import Evidence
from ..generation import data
from ..generation.patterns import Alone, Pattern, parse_table
from ..generation.systematic import default_case
from ..storage.shared_answers import Peers
from .activity import Activity
from .client import Worker
from .recent import Recent
from .time_limit import TimeLimit

#: Operators of which a target will take one.
_COMMON = ("nn.relu", "add", "nn.conv2d", "nn.dense", "nn.softmax")
#: Graphs partitioned in one process, shared among the processes of the session. A fork costs more than a
#: partition does.
_AT_ONCE = 50
#: What `survey` does, as an activity of the session.
PARTITIONING = "partitioning graphs to find out what the target offloads"
#: Claims that are known without asking again: more than all systematic cases have, which are asked about
#: together and examined later.
KEPT = 20_000


@dataclass(frozen=True)
class Claim:
    """placement: of each node, in which region it is, or None. regions: how many there are. composites:
    names of the composites in them. boundary_bytes: what a run passes into them and out of them. calls: as
    `Evidence.calls`. changed: whether main is another one after partitioning. compilers: names of the
    codegens that the regions are for; with_codegen: whether one of these is registered with TVM."""

    placement: tuple[int | None, ...]
    regions: int
    composites: frozenset[str]
    boundary_bytes: int = 0
    calls: tuple[tuple[str, ...], ...] = ()
    changed: bool = False
    compilers: frozenset[str] = frozenset()
    with_codegen: bool = True

    @classmethod
    def told(cls, graph: Graph, regions: Any) -> Claim:
        """What the worker says of the regions of a partitioned graph."""
        told = JobReport([{"fact": "regions", "executor": None, "value": regions}])
        evidence = Evidence(graph, [], {}, [], told, JobReport())
        names = frozenset(c for r in evidence.regions for c in r["composites"])
        return cls(
            evidence.placement(), len(evidence.regions), names, evidence.boundary_bytes(), evidence.calls(),
            bool(regions["changed"]), frozenset(r["compiler"] for r in evidence.regions),
            any(r["codegen"] for r in evidence.regions),
        )

    @property
    def to_be_judged(self) -> bool:
        """Something is offloaded, or the graph is changed all the same."""
        return bool(self.regions or self.changed)

    @property
    def offloaded(self) -> tuple[bool, ...]:
        """Of each node, whether it is in a region."""
        return tuple(region is not None for region in self.placement)


class Claims:
    """Claims of one target, each graph partitioned once: by this process, or by another of the session."""

    def __init__(
        self, worker: Worker, peers: Peers | None = None, activity: Activity | None = None,
        limit: TimeLimit | None = None,
    ) -> None:
        self._worker = worker
        self._limit = limit
        self._activity = activity or Activity()
        self._peers = peers or Peers()
        self._known = Recent[bytes, Claim | None](KEPT)
        self._at_once = 0
        #: Composites seen of a target of whose patterns there is no table, once `patterns` has been asked.
        self.without_table: list[str] = []

    def of(self, graph: Graph) -> Claim | None:
        """None where partitioning fails: what happens there is the examination's business."""
        return self.survey([graph])[0]

    def known(self, graph: Graph) -> Claim | None:
        """As `of`, of a graph that has been surveyed; None for any other."""
        return self._known.get(graph.digest)

    def survey(self, graphs: Iterable[Graph]) -> list[Claim | None]:
        """The claim on each, as of `of`; those not known yet are partitioned many in one process."""
        keyed = [(g.digest, g) for g in graphs]
        new = {k: g for k, g in keyed if k not in self._known}
        found = {k: self._known[k] for k, _ in keyed if k not in new}
        with self._activity.during(PARTITIONING, len(new)):
            messages = self._each(list(new.values()), "claims", "regions")
        for (key, graph), message in zip(new.items(), messages):
            found[key] = None if message is None else Claim.told(graph, message["value"])
            self._known[key] = found[key]
        return [found[k] for k, _ in keyed]

    def learn(self, graphs: Sequence[Graph], report: JobReport) -> None:
        """Keeps what a report says of graphs that were partitioned apart, by their position."""
        for _, value in report.facts("claim"):
            graph = graphs[value["number"]]
            self._known[graph.digest] = Claim.told(graph, value)

    @property
    def several(self) -> bool:
        """Whether one process may partition several graphs."""
        return self._several() > 1

    def _each(self, graphs: list[Graph], kind: str, fact: str, **more: Any) -> list[dict[str, Any] | None]:
        """The message with that fact on each graph, None where there is none. A graph that ends the process
        costs the others nothing: they are asked about again."""
        questions = [[graph.digest.hex(), kind, more] for graph in graphs]
        found: dict[int, dict[str, Any] | None] = {}
        at_once = self._several() if len(graphs) > 1 else 1
        left = self._peers.beginning_elsewhere(range(len(graphs)))
        while left:
            known = {n: self._peers.answer(questions[n]) for n in left[:at_once]}
            found.update((n, message) for n, message in known.items() if message is not None)
            some = [n for n, message in known.items() if message is None]
            if some:
                report = self.report([graphs[n] for n in some], kind, **more)
                said = {some[m["value"]["number"]]: m for m in report.messages if m.get("fact") == fact}
                if report.left_running:
                    # One of them has: each is to be examined.
                    said = {}
                begun = [number for _, number in report.facts("begun")]
                done = len(some) if report.died is None else max(begun, default=0) + 1
                found.update((n, said.get(n)) for n in some[:done])
                for n, message in said.items():
                    self._peers.tell(questions[n], message)
            before, left = len(left), [n for n in left if n not in found]
            self._activity.step(PARTITIONING, before - len(left))
        return [found[n] for n in range(len(graphs))]

    def _several(self) -> int:
        """How many graphs one process may partition: more than one, unless the target takes other things of
        a graph behind others than of the graph alone. (That it does is the check `idempotent`'s to tell.)"""
        if not self._at_once:
            graphs = [default_case(name, "float32").graph for name in _COMMON]
            alone = [self._taken([g]).get(0) for g in graphs]
            # Those that come before one that ends the process are told of.
            same = all(found == alone[n] for n, found in self._taken(graphs).items())
            self._at_once = max(8, _AT_ONCE // self._peers.processes) if same else 1
        return self._at_once

    def _taken(self, graphs: list[Graph]) -> dict[int, list[list[str]]]:
        """By its number what stands in the regions of each graph, all of them partitioned in one process."""
        facts = (value for _, value in self.report(graphs).facts("regions"))
        return {v["number"]: [sorted(region["calls"]) for region in v["regions"]] for v in facts}

    def patterns(self) -> list[Pattern]:
        """The target's patterns, as TVM has them registered; none where there is no such table."""
        simple = [default_case(name, "float32").graph for name in _COMMON]
        report = self.report(simple, "patterns")
        self.without_table = [name for _, names in report.facts("composites") for name in names]
        for _, described in report.facts("patterns"):
            return parse_table(described)
        return []

    def alone(self, pattern: Pattern, graphs: Sequence[Graph]) -> list[Alone | None]:
        """What the pattern would take of each graph, were it the only one of its table; None where that
        cannot be told."""
        told = self._each(
            list(graphs), "alone", "alone", table=pattern.table, position=pattern.position
        )
        return [None if m is None else Alone.of(m["value"]) for m in told]

    def composites(self, graphs: Sequence[Graph]) -> list[frozenset[str] | None]:
        """Names of the composites the target makes of each graph; None where partitioning fails."""
        return [None if c is None else c.composites for c in self.survey(graphs)]

    def report(self, graphs: list[Graph], kind: str = "claims", **more: Any) -> JobReport:
        """What the worker says of partitioning the graphs: facts are numbered by their position."""
        entries = [{"graph": g.to_dict(), "constants": data.constants(g)} for g in graphs]
        job = {"kind": kind, "graphs": entries, **more}
        if self._limit is not None and self._limit.is_shortened:
            self._worker.submit(job, self._limit.seconds)
        else:
            self._worker.submit(job)
        report = self._worker.collect()
        if self._limit is not None:
            self._limit.learn(report, of_several=True)
        return report

