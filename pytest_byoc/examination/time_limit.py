"""How long a stage of the target's may take."""

from __future__ import annotations

from ..core.job_report import JobReport

#: After a first hang: the limit as a multiple of the longest stage that did not hang, and its floor in
#: seconds.
FACTOR, FLOOR = 20.0, 3.0


class TimeLimit:
    """timeout: seconds, while nothing has hung."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._hung = False
        self._longest = 0.0

    @property
    def is_shortened(self) -> bool:
        return self._hung

    @property
    def seconds(self) -> float:
        """Once a stage has hung, what the others took is the measure: a target that hangs on an operator
        would otherwise cost the full limit for each of its cases."""
        return min(self._timeout, max(FLOOR, FACTOR * self._longest)) if self._hung else self._timeout

    def learn(self, report: JobReport, of_several: bool = False) -> None:
        """of_several: the report is on several graphs, whose seconds in a stage are one sum."""
        if report.died == "hung":
            assert report.end is not None
            report.end["shortened"] = report.end.get("limit", self._timeout) < self._timeout
            self._hung = True
        elif report.end is not None and not of_several:
            self._longest = max([self._longest, *report.end["seconds"].values()])
