"""The failures that a session knows, including those listed by other processes of pytest-xdist."""

from __future__ import annotations

from dataclasses import dataclass

from ..examination.examiner import Examiner
from ..examination.outcome import Verdict
from ..record.likely_causes import likely_causes, recognised
from ..record.listed import Failure
from ..record.target_record import TargetRecord
from ..report.words import counted

#: Name of the list of failures that the processes share.
_SHARED = "failures"
#: Tests in a row that may fail by known causes only, multiplied by --byoc-max-causes, before no
#: further test of the suite begins.
IN_A_ROW = 15


@dataclass
class KnownFailures:
    """The failures in one target's record.

    most: the number of causes after which no further test begins (--byoc-max-causes)."""

    examiner: Examiner
    record: TargetRecord
    most: int
    #: Number of tests since the last one that passed or failed by a new cause.
    _in_a_row: int = 0
    #: Number of items of the shared list that are already in the record.
    _learnt: int = 0

    def causes(self) -> int:
        """Returns the number of likely causes that are known."""
        self._learn()
        return len(likely_causes(self.record.failures.values()))

    def note(self, tells_something: bool) -> None:
        """Counts a test that has judged something. tells_something: whether it passed or its
        failure is new."""
        self._in_a_row = 0 if tells_something else self._in_a_row + 1

    def why_enough(self) -> str:
        """Returns the reason why no further test needs to begin, or "" if there is none."""
        if self.causes() >= self.most:
            return f"{counted(self.most, 'cause')} of failures known"
        limit = max(1, IN_A_ROW * self.most // self.examiner.peers.processes)
        if self._in_a_row >= limit:
            return f"{limit} tests in a row failed only by causes that were known before"
        return ""

    def recognise(self, verdict: Verdict) -> Failure | None:
        """Returns the known failure that explains a failing verdict, without examining a smaller
        graph; None if the failure is new."""
        return recognised(list(self.record.failures.values()), verdict, self.examiner.workers.ir)

    def tells_nothing_new(self, verdict: Verdict) -> bool:
        """Returns whether a failing verdict has a specific signature, which by itself identifies
        the cause, and is known."""
        return not verdict.signature.is_generic and self.recognise(verdict) is not None

    def tell(self, failure: Failure) -> None:
        """Shares a failure with the other processes."""
        self.examiner.peers.append(_SHARED, {**failure.as_dict(), "count": 0, "cases": []})

    def _learn(self) -> None:
        for item in self.examiner.peers.items(_SHARED, self._learnt):
            self._learnt += 1
            self.record.failures.setdefault(item["id"], Failure(**item))
