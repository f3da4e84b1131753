"""The workers of one thread, and the tasks that they do (`ahead.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..config.effort import Effort
from ..core.graph import Graph
from ..core.job_report import JobReport
from ..evidence.evidence import Evidence
from ..evidence.judging import Judgement
from ..generation import data
from .client import Worker
from .gathering import Gatherer
from .since import Since
from .subject import Subject
from .time_limit import TimeLimit
from .workers import Workers


class TargetLane:
    """The workers of a target in one thread.

    limit, since, tvms_too: as in `Gatherer`. first: the workers of the main thread; None if these are they.
    """

    def __init__(
        self, workers: Workers, limit: TimeLimit, since: Since, tvms_too: set[str],
        first: Workers | None = None,
    ) -> None:
        self.workers = workers
        self.limit = limit
        self.gatherer = Gatherer(workers, limit, since, tvms_too)
        self._first = first

    def open(self) -> None:
        """Starts the workers. Raises WorkerError if one can't be started."""
        self.workers.open()

    def follow(self) -> None:
        """Takes over what has been decided on the target since the first workers were started."""
        if self._first is not None:
            self.workers.follow(self._first)

    def hang_up(self) -> None:
        """Makes a task that is at work in another thread end soon."""
        self.workers.hang_up()

    def close(self) -> None:
        """Ends the workers."""
        self.workers.close()
        self.gatherer.close()


@dataclass(frozen=True)
class Examination:
    """The task to gather the evidence on a graph, and the findings in it."""

    graph: Graph
    effort: Effort

    def run(self, lane: TargetLane) -> tuple[Evidence, Judgement]:
        lane.follow()
        return lane.gatherer.gather(Subject.of(self.graph, self.effort), self.effort)


@dataclass(frozen=True, eq=False)
class Questions:
    """The task to partition graphs in one process. kind, more: of the job."""

    graphs: tuple[Graph, ...]
    kind: str
    more: Mapping[str, Any]

    def run(self, lane: TargetLane) -> JobReport:
        lane.follow()
        return self.ask(lane.workers.target, lane.limit)

    def ask(self, worker: Worker, limit: TimeLimit | None) -> JobReport:
        """Returns a worker's report. Its facts are numbered by the positions of the graphs."""
        entries = [{"graph": g.to_dict(), "constants": data.constants(g)} for g in self.graphs]
        job = {"kind": self.kind, "graphs": entries, **self.more}
        if limit is not None and limit.is_shortened:
            worker.submit(job, limit.seconds)
        else:
            worker.submit(job)
        report = worker.collect()
        if limit is not None:
            limit.learn(report, of_several=True)
        return report
