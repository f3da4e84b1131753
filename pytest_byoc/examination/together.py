"""Decides which graphs of a survey are partitioned together in one module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..core.job_report import JobReport
from ..core.union import in_turn

#: The number of graphs that are partitioned together. A partition function costs much for each module
#: where it builds its table of patterns at each call.
SIZE = 16
#: The number of graphs of the trial, and the part of the seconds for partitioning them alone that
#: partitioning them together may take at most.
TRIAL, GAIN = 2 * SIZE, 0.8
#: The name of the worker's fact on a graph that was partitioned together with others.
TOGETHER = "together"


class Together:
    """Whether graphs are partitioned together, by the results so far.

    It begins with a trial: graphs are partitioned both ways. Later one graph of each group is partitioned
    alone too. wrong: whether a graph had another partition alone; from then on none are together.
    """

    def __init__(self) -> None:
        self.tried = self.on = self.wrong = False

    def decide(self, alone: JobReport, together: JobReport, same: bool) -> None:
        """Decides by the trial. same: whether each graph has the same partition both ways."""
        self.tried = True
        seconds = [sum((r.end or {}).get("seconds", {}).values()) for r in (alone, together)]
        died = alone.died is not None or together.died is not None
        self.on = same and not died and seconds[1] < GAIN * seconds[0]

    def end(self) -> None:
        """Partitions no more graphs together, because a graph had another partition alone."""
        self.tried, self.on, self.wrong = True, False, True

    def groups(self, count: int) -> list[int]:
        """Returns the sizes of the groups of so many graphs, as `runs/surveying.py` wants them."""
        if not self.on:
            return []
        return [size for first in range(0, count, SIZE) if (size := min(SIZE, count - first)) > 1]


class Reading:
    """What a report says of the graphs of a survey.

    part: the numbers of the graphs by their positions in the job. groups: of the job. fact: the name of the
    fact on a graph that was partitioned alone.
    """

    def __init__(self, report: JobReport, part: Sequence[int], groups: Sequence[int], fact: str) -> None:
        self.report = report
        self._part = part
        # It is unknown which graph has started a program that is left running, so each is to be examined.
        said = [] if report.left_running else report.messages
        self._alone = {m["value"]["number"]: m for m in said if m.get("fact") == fact}
        self._together = {m["value"]["number"]: m for m in said if m.get("fact") == TOGETHER}
        #: How many graphs of the job were begun, and the position of the one that has killed the process.
        self._done, killed = len(part), None
        self._again: set[int] = set()
        grouped = list(in_turn(range(sum(groups)), groups))
        if report.died is not None:
            begun = [m for m in report.messages if m.get("fact") in ("begun", "begun together")]
            last: Mapping[str, Any] = begun[-1] if begun else {"fact": "begun", "value": 0}
            killed = last["value"]
            self._done = killed + 1
            if last["fact"] == "begun together":
                self._again.update(next(group for group in grouped if killed in group))
                killed = None
        for group in grouped:
            # Where the graph that was partitioned alone raised or died, the others are asked again.
            if any(at in self._together for at in group) and not any(at in self._alone for at in group):
                self._withdraw(group)
        if killed is not None:
            self._again.discard(killed)

    def _withdraw(self, positions: Sequence[int]) -> None:
        self._again.update(at for at in positions if self._together.pop(at, None) and at not in self._alone)

    def withdraw_together(self) -> None:
        """Drops what was found out about graphs together."""
        self._withdraw(list(self._together))

    @property
    def again(self) -> set[int]:
        """Returns the numbers of the graphs that are to be partitioned once more, alone."""
        return {self._part[at] for at in self._again}

    @property
    def answers(self) -> dict[int, dict[str, Any] | None]:
        """Returns the worker's message on each graph by its number; None where there is none."""
        found = {**self._together, **self._alone}
        return {
            n: found.get(at) for at, n in enumerate(self._part)
            if at in found or (at < self._done and at not in self._again)
        }

    def twice(self) -> Iterator[tuple[int, Any, Any]]:
        """Yields the number of each graph that was partitioned both ways, with both facts."""
        for at in sorted(self._together.keys() & self._alone.keys()):
            yield self._part[at], self._alone[at]["value"], self._together[at]["value"]
