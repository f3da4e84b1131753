"""The failures that a session knows, with those that other processes of pytest-xdist have listed."""

from __future__ import annotations

from dataclasses import dataclass

from ..examination.examiner import Examiner
from ..examination.outcome import Verdict
from ..record.likely_causes import likely_causes, recognised
from ..record.target_record import Failure, TargetRecord
from ..report.words import counted

#: The list of failures that processes share.
_SHARED = "failures"
#: For each cause that is looked for, tests in a row that may fail by known causes alone until none begins.
IN_A_ROW = 15


@dataclass
class KnownFailures:
    """The failures in one target's record. most: causes that are looked for (--byoc-max-causes)."""

    examiner: Examiner
    record: TargetRecord
    most: int
    #: Tests since the last one that passed, or failed by something new.
    _in_a_row: int = 0
    #: How many of the shared list are in the record.
    _learnt: int = 0

    def causes(self) -> int:
        """How many likely causes are known."""
        self._learn()
        return len(likely_causes(self.record.failures.values()))

    def note(self, tells_something: bool) -> None:
        """Counts a test that has judged something. tells_something: it passed, or its failure is new."""
        self._in_a_row = 0 if tells_something else self._in_a_row + 1

    def why_enough(self) -> str:
        """Why no more is looked for; "" where more is."""
        if self.causes() >= self.most:
            return f"{counted(self.most, 'cause')} of failures known"
        limit = max(1, IN_A_ROW * self.most // self.examiner.peers.processes)
        if self._in_a_row >= limit:
            return f"{limit} tests in a row failed by nothing but causes known before"
        return ""

    def recognise(self, verdict: Verdict) -> Failure | None:
        """The failure that a failing verdict is known by, without a look at a smaller graph; None
        for a new one."""
        return recognised(list(self.record.failures.values()), verdict, self.examiner.workers.ir)

    def tells_nothing_new(self, verdict: Verdict) -> bool:
        """Whether a failing verdict shows what says by itself what is wrong, and is known."""
        return not verdict.signature.is_generic and self.recognise(verdict) is not None

    def tell(self, failure: Failure) -> None:
        """Lets the other processes know of a failure."""
        self.examiner.peers.append(_SHARED, {**failure.as_dict(), "count": 0, "cases": []})

    def _learn(self) -> None:
        for item in self.examiner.peers.items(_SHARED, self._learnt):
            self._learnt += 1
            self.record.failures.setdefault(item["id"], Failure(**item))
