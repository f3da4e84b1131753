"""Finds out which nodes of a graph the target offloads, by partitioning it without building it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ..core.graph import Graph
from ..core.job_report import JobReport
from ..evidence.evidence import Evidence
from ..generation.patterns import Alone, Pattern, parse_table
from ..generation.systematic import default_case
from ..storage.session_ended import SessionEnded
from ..storage.shared_answers import Peers
from ..storage.stored_surveys import StoredSurveys
from .activity import Activity
from .ahead import Ahead
from .client import Worker
from .lane import Questions, TargetLane
from .limited_dict import LimitedDict
from .time_limit import TimeLimit
from .together import SIZE, TOGETHER, TRIAL, Reading, Together

#: Common operators, of which most targets offload at least one.
_COMMON = ("nn.relu", "add", "nn.conv2d", "nn.dense", "nn.softmax")
#: The number of graphs that are partitioned in one process, divided by the number of processes of
#: the session. Several share a process because a fork costs more than partitioning a graph.
AT_ONCE = 300
#: The number of graphs from which on a trial shows whether partitioning together is worthwhile.
_MANY = 100
#: The most parts that a survey is cut into for several workers, and the fewest graphs of a part, where there
#: is more than one: each costs a process.
_PARTS, _PART = 6, 24
#: The number of processes that may die before a graph with a region was partitioned. After that no
#: survey of several graphs is made, and each test examines its own: the target dies on all it offloads.
_DEATHS = 4
#: The number of graphs that share a process after one has died, at least.
_FEW = 8
#: The kind of the jobs of `survey`, and the name of its activity.
_SURVEY = "partitions"
PARTITIONING = "partitioning graphs to find out what the target offloads"
#: The number of partitions that are kept. It exceeds the number of all systematic cases, which are
#: surveyed together and examined later.
KEPT = 20_000


@dataclass(frozen=True)
class Partition:
    """The result of partitioning one graph.

    placement: for each node, the position of its region, or None. regions: the number of regions.
    composites: the names of the composites in them. boundary_bytes: the bytes that a run passes
    into regions and out of them. calls: as `Evidence.calls`. changed: whether partitioning has
    changed main. compilers: the names of the codegens of the regions. with_codegen: whether one of
    these is registered with TVM.
    """

    placement: tuple[int | None, ...]
    regions: int
    composites: frozenset[str]
    boundary_bytes: int = 0
    calls: tuple[tuple[str, ...], ...] = ()
    changed: bool = False
    compilers: frozenset[str] = frozenset()
    with_codegen: bool = True

    @classmethod
    def from_fact(cls, graph: Graph, regions: Any) -> Partition:
        """Returns the partition of a graph. regions: the worker's fact "regions" on it."""
        report = JobReport([{"fact": "regions", "executor": None, "value": regions}])
        evidence = Evidence(graph, [], {}, [], report, JobReport())
        names = frozenset(c for r in evidence.regions for c in r["composites"])
        return cls(
            evidence.placement(), len(evidence.regions), names, evidence.boundary_bytes(), evidence.calls(),
            bool(regions["changed"]), frozenset(r["compiler"] for r in evidence.regions),
            any(r["codegen"] for r in evidence.regions),
        )

    @property
    def to_be_judged(self) -> bool:
        """True if something is offloaded, or partitioning has changed the graph in another way."""
        return bool(self.regions or self.changed)

    @property
    def offloaded(self) -> tuple[bool, ...]:
        """Returns for each node whether it is in a region."""
        return tuple(region is not None for region in self.placement)


@dataclass
class _Survey:
    """A survey that is being made. Graphs are known by their position.

    questions: about each graph. answers: the worker's messages so far; None where it has none. singly:
    the graphs that are not partitioned together with others.
    """

    graphs: list[Graph]
    questions: list[list[Any]]
    answers: dict[int, dict[str, Any] | None] = field(default_factory=dict)
    singly: set[int] = field(default_factory=set)


class Partitions:
    """The partitions of one target. Each graph is partitioned once, by one process of the session.

    peers: the answers that the processes of the session share. limit: the time limit of a stage.
    ahead: has graphs partitioned by other workers too. stored: the answers of earlier sessions.
    """

    def __init__(
        self, worker: Worker, peers: Peers | None = None, activity: Activity | None = None,
        limit: TimeLimit | None = None, ahead: Ahead[TargetLane] | None = None,
        stored: StoredSurveys | None = None,
    ) -> None:
        self._worker = worker
        self._ahead = ahead
        self._limit = limit
        self._activity = activity or Activity()
        self._peers = peers or Peers()
        self._stored = stored or StoredSurveys()
        self._known = LimitedDict[bytes, Partition | None](KEPT)
        self._together = Together()
        #: The digests of the graphs whose partition is known by an earlier session, or by partitioning
        #: together with others.
        self._doubtful: set[bytes] = set()
        self._at_once = 0
        #: Whether a graph with a region was partitioned, and how many processes have died.
        self._lives, self._deaths = False, 0
        #: The names of composites of a target that has no pattern table; set by `patterns`.
        self.without_table: list[str] = []

    def of(self, graph: Graph) -> Partition | None:
        """Returns the partition of a graph; None where partitioning fails, which its test reports."""
        return self.survey([graph])[0]

    def known(self, graph: Graph) -> Partition | None:
        """Returns the partition of a graph that has been surveyed; None for any other graph."""
        return self._known.get(graph.digest)

    def survey(self, graphs: Iterable[Graph]) -> list[Partition | None]:
        """Returns the partition of each graph as `of` does; unknown graphs share processes."""
        keyed = [(g.digest, g) for g in graphs]
        new = {k: g for k, g in keyed if k not in self._known}
        partitions = {k: self._known[k] for k, _ in keyed if k not in new}
        with self._activity.during(PARTITIONING, len(new)):
            messages = self._each(list(new.values()), _SURVEY, "regions")
        for (key, graph), message in zip(new.items(), messages):
            partitions[key] = None if message is None else Partition.from_fact(graph, message["value"])
            self._known[key] = partitions[key]
            if message is not None and _is_doubtful(message):
                self._doubtful.add(key)
        return [partitions[k] for k, _ in keyed]

    @property
    def taken_over(self) -> bool:
        """Returns whether answers of an earlier session were taken over."""
        return self._stored.taken > 0

    def close(self) -> None:
        """Keeps the new answers for later sessions."""
        self._stored.keep()

    def learn(self, graphs: Sequence[Graph], report: JobReport) -> None:
        """Keeps the partitions that a report has of graphs that were partitioned one by one.

        The report numbers its facts by the positions of the graphs.
        """
        for _, value in report.facts("partition"):
            graph = graphs[value["number"]]
            self._known[graph.digest] = Partition.from_fact(graph, value)

    @property
    def several(self) -> bool:
        """True if one process may partition several graphs."""
        return self._several() > 1

    def _each(self, graphs: list[Graph], kind: str, fact: str, **more: Any) -> list[dict[str, Any] | None]:
        """Returns for each graph the worker's message with a fact; None where there is none.

        kind: of the job. more: further entries of the job. If a graph kills the process, the graphs
        behind it are sent again.
        """
        survey = _Survey(graphs, [[graph.digest.hex(), kind, more] for graph in graphs])
        most = at_once = self._several() if len(graphs) > 1 else 1
        left = self._peers.beginning_elsewhere(range(len(graphs)))
        worthwhile = self._together.on or len(graphs) > _MANY
        survey.singly = set() if kind == _SURVEY and worthwhile and most > 1 else set(left)
        while left and not (len(graphs) > 1 and self._dies):
            parallel = self._ahead is not None and self._ahead.is_on and len(left) > _PART
            # Another process may have answered what comes later by then.
            some = self._unanswered(survey, left if parallel else left[:at_once])
            if not survey.singly and not self._together.tried and len(some) > TRIAL:
                self._try_together([graphs[n] for n in some[:: len(some) // TRIAL][:TRIAL]])
            size = min(at_once, _size_of_parts(len(some))) if parallel else at_once
            parts = [self._part(survey, some[first : first + size]) for first in range(0, len(some), size)]
            asked = [
                Questions(tuple(graphs[n] for n in part), kind, dict(more, groups=groups))
                for part, groups in parts
            ]
            died = False
            for (part, groups), report in zip(parts, self._reports(asked)):
                self._read(survey, Reading(report, part, groups, fact))
                died |= report.died is not None
            # Each process that dies has the graphs behind it sent again.
            at_once = max(min(_FEW, most), at_once // 2) if died else min(most, 2 * at_once)
            left = [n for n in left if n not in survey.answers]
        return [survey.answers.get(n) for n in range(len(graphs))]

    def _unanswered(self, survey: _Survey, numbers: Sequence[int]) -> list[int]:
        """Takes over the answers of other processes and sessions; returns the numbers of the other graphs."""
        known = {n: self._told(survey.questions[n]) for n in numbers}
        survey.answers.update((n, message) for n, message in known.items() if message is not None)
        self._see_life(known.values())
        return [n for n, message in known.items() if message is None]

    def _part(self, survey: _Survey, numbers: list[int]) -> tuple[list[int], list[int]]:
        """Returns graphs for one process, those that are partitioned together first, and the sizes of
        groups."""
        part = sorted(numbers, key=survey.singly.__contains__)
        return part, self._together.groups(len(part) - len(survey.singly.intersection(part)))

    def _read(self, survey: _Survey, reading: Reading) -> None:
        """Adds the answers of a report to those of a survey, and tells them to others."""
        report, graphs, questions = reading.report, survey.graphs, survey.questions
        differ = any(_differ(graphs[n], *facts) for n, *facts in reading.twice())
        if differ or any(self._contradicts(graphs[n], questions[n], m) for n, m in reading.answers.items()):
            self._ask_anew(survey.answers)
        if self._together.wrong:
            reading.withdraw_together()
        said = reading.answers
        self._see_life(said.values())
        self._deaths += report.died is not None
        survey.singly |= reading.again
        survey.answers.update(said)
        files = [value for _, value in report.facts("files")]
        self._stored.depend_on(chain.from_iterable(files))
        for n, message in said.items():
            if message is not None:
                self._peers.tell(questions[n], message)
                # Files on which an answer depends are unknown where the process has died.
                self._stored.tell(questions[n], message if files else None)
        self._activity.step(PARTITIONING, len(said))

    def _see_life(self, messages: Iterable[dict[str, Any] | None]) -> None:
        self._lives = self._lives or any(m and m["value"].get("regions") for m in messages)

    def _told(self, question: Any) -> dict[str, Any] | None:
        """Returns the answer of another process or session to a question; None if there is none."""
        message = self._peers.answer(question)
        if message is None:
            stored = self._stored.answer(question)
            message = stored and {**stored, "stored": True}
        return None if message and _is_doubtful(message) and self._together.wrong else message

    def _contradicts(self, graph: Graph, question: Any, message: dict[str, Any] | None) -> bool:
        """Returns whether an answer is another one than that of an earlier session."""
        earlier = self._stored.earlier(question)
        if earlier is None:
            return False
        if message is None or "regions" not in message["value"]:
            return message is None or {**message["value"], "number": 0} != {**earlier["value"], "number": 0}
        return _differ(graph, message["value"], earlier["value"])

    def _try_together(self, graphs: list[Graph]) -> None:
        """Partitions graphs alone and together, and decides whether others are partitioned together."""
        alone = self.report(graphs)
        together = self.report(graphs, groups=[SIZE] * (len(graphs) // SIZE))
        facts = {value["number"]: value for _, value in alone.facts("regions")}
        found = [(n, value) for _, value in together.facts(TOGETHER) if (n := value["number"]) in facts]
        same = bool(found) and not any(_differ(graphs[n], facts[n], value) for n, value in found)
        self._together.decide(alone, together, same)

    def _ask_anew(self, answers: dict[int, dict[str, Any] | None]) -> None:
        """Forgets what was found out about graphs together or in an earlier session, which was wrong.

        From now on each graph is partitioned alone. answers: those of the survey that is being made.
        """
        self._together.end()
        self._stored.clear()
        for n, message in list(answers.items()):
            if message is not None and _is_doubtful(message):
                del answers[n]
        for key in self._doubtful:
            self._known.pop(key, None)
        self._doubtful.clear()

    @property
    def _dies(self) -> bool:
        return not self._lives and self._deaths >= _DEATHS

    def _reports(self, asked: Sequence[Questions]) -> Iterator[JobReport]:
        """Yields the worker's report on each of several questions, or that of other workers."""
        if self._ahead is None or len(asked) < 2:
            return (questions.ask(self._worker, self._limit) for questions in asked)
        for questions in asked:
            self._ahead.request(questions)
        return map(self._ahead.take, asked)

    def _several(self) -> int:
        """Returns the number of graphs that one process may partition.

        It is 1 if the target offloads other nodes of a graph after others than of the graph alone,
        which the check `idempotent` reports.
        """
        if not self._at_once:
            graphs = [default_case(name, "float32").graph for name in _COMMON]
            alone: list[list[list[str]] | None] = []
            for graph in graphs:
                alone.append(self._calls([graph]).get(0))
                if self._dies:
                    break
            # If a graph kills the process, only the graphs before it are compared.
            same = not self._dies and all(c == alone[n] for n, c in self._calls(graphs).items())
            self._at_once = max(8, AT_ONCE // self._peers.processes) if same else 1
        return self._at_once

    def _calls(self, graphs: list[Graph]) -> dict[int, list[list[str]]]:
        """Returns the calls in the regions of each graph, by the graph's position.

        All graphs are partitioned in one process.
        """
        report = self.report(graphs)
        self._deaths += report.died is not None
        facts = (value for _, value in report.facts("regions"))
        return {v["number"]: [sorted(region["calls"]) for region in v["regions"]] for v in facts}

    def patterns(self) -> list[Pattern]:
        """Returns the target's patterns as registered with TVM; none if there is no such table.

        Raises SessionEnded if the table that the target names does not exist.
        """
        simple = [default_case(name, "float32").graph for name in _COMMON]
        report = self.report(simple, "patterns")
        for _, found in report.facts("patterns"):
            if "missing" in found:
                raise SessionEnded(_no_such_table(**found["missing"]))
            patterns = parse_table(found["patterns"])
            self.without_table = [] if patterns else found["composites"]
            return patterns
        return []

    def alone(self, pattern: Pattern, graphs: Sequence[Graph]) -> list[Alone | None]:
        """Returns the matches of a pattern in each graph, as if it were the only one of its table.

        None stands for a graph on which the worker reports nothing.
        """
        messages = self._each(
            list(graphs), "alone", "alone", table=pattern.table, position=pattern.position
        )
        return [None if m is None else Alone.of(m["value"]) for m in messages]

    def composites(self, graphs: Sequence[Graph]) -> list[frozenset[str] | None]:
        """Returns the names of the composites in each partitioned graph; None where that fails."""
        return [None if c is None else c.composites for c in self.survey(graphs)]

    def report(self, graphs: Sequence[Graph], kind: str = _SURVEY, **more: Any) -> JobReport:
        """Returns the worker's report on a job with several graphs.

        Its facts are numbered by the positions of the graphs. kind, more: of the job.
        """
        return Questions(tuple(graphs), kind, more).ask(self._worker, self._limit)


def _size_of_parts(graphs: int) -> int:
    """Returns the number of graphs in each part of a survey that is cut for several workers."""
    parts = min(_PARTS, -(-graphs // _PART))
    return -(-graphs // parts) if parts else 1


def _is_doubtful(message: dict[str, Any]) -> bool:
    """Returns whether an answer is an earlier session's, or was found out by partitioning together."""
    return bool(message["fact"] == TOGETHER or message.get("stored"))


def _differ(graph: Graph, one: Any, other: Any) -> bool:
    """Returns whether two facts "regions" on a graph tell of different partitions.

    The order of regions is that of TVM's map of functions, which says nothing.
    """
    found = []
    for fact in (one, other):
        regions = sorted(fact["regions"], key=lambda region: (region["calls"], region["composites"]))
        found.append(Partition.from_fact(graph, {**fact, "regions": regions}))
    return found[0] != found[1]


def _no_such_table(declared: str, registered: list[str]) -> str:
    near = difflib.get_close_matches(declared, registered, 1)
    perhaps = f" (did you mean {near[0]}?)" if near else ""
    return (
        f"the target names its table of patterns {declared!r}, and TVM has none of that name{perhaps}. "
        f"Registered are {', '.join(registered) or 'none'}; correct the key or attribute patterns, or leave "
        "it out"
    )
