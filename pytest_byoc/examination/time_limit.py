"""The time limit of a stage of the target."""

from __future__ import annotations

from ..core.job_report import JobReport

#: The limit after a first hang: FACTOR times the longest stage that did not hang, and at least
#: FLOOR seconds.
FACTOR, FLOOR = 20.0, 3.0

#: The nodes of a graph for which there is one limit. Graphs of the suite have fewer; a whole model has
#: several times the limit, because passes of TVM need more than linear time (PartitionGraph in Relay 19 s
#: for a DenseNet of 124 regions).
NODES = 100


class TimeLimit:
    """The time limit of a stage, which is shortened once a stage has hung.

    timeout: the limit in seconds as long as nothing has hung.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._hung = False
        self._longest = 0.0

    @property
    def is_shortened(self) -> bool:
        return self._hung

    @property
    def seconds(self) -> float:
        """Returns the limit in seconds.

        Once a stage has hung, the limit follows from the longest of the others, because a target
        that hangs on an operator would otherwise cost the full limit for each of its cases.
        """
        return min(self._timeout, max(FLOOR, FACTOR * self._longest)) if self._hung else self._timeout

    def of(self, nodes: int) -> float:
        """Returns the limit in seconds for a graph of so many nodes: once for each `NODES` of them."""
        return self.seconds * max(1, -(-nodes // NODES))

    def learn(self, report: JobReport, of_several: bool = False) -> None:
        """Notes the durations of a job's stages, and whether one hung.

        of_several: the report is on several graphs, and its seconds of a stage are their sum.
        """
        if report.died == "hung":
            assert report.end is not None
            report.end["shortened"] = report.end.get("limit", self._timeout) < self._timeout
            self._hung = True
        elif report.end is not None and not of_several:
            self._longest = max([self._longest, *report.end["seconds"].values()])
