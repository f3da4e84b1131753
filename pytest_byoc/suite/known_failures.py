"""The failures that a session knows, including those listed by other processes of pytest-xdist."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.finding import WRONG_RESULT
from ..examination.examiner import Examiner
from ..examination.outcome import HANG, INCONCLUSIVE, PASS, REFERENCE_WRONG, Verdict
from ..record.likely_causes import likely_causes, recognised
from ..record.listed import Failure
from ..record.target_record import TargetRecord
from ..report.words import counted

#: Name of the list of failures that the processes share.
_SHARED = "failures"
#: Tests in a row that may fail by known causes only, multiplied by --byoc-max-causes, before no
#: further test of the suite begins.
IN_A_ROW = 15
#: Tests in a row that may fail by known causes only while no graph has come to a result; a hang
#: counts three times.
DYING = 20
#: The outcomes of graphs that came to a result.
_RESULTS = frozenset((PASS, WRONG_RESULT, INCONCLUSIVE, REFERENCE_WRONG))


@dataclass
class KnownFailures:
    """The failures in one target's record.

    most: the number of causes after which no further test begins (--byoc-max-causes)."""

    examiner: Examiner
    record: TargetRecord
    most: int
    #: Number of tests since the last one that passed or failed by a new cause.
    _in_a_row: int = 0
    #: The same number, in which a hang counts three times.
    _dying: int = 0
    #: Whether a graph has come to a result.
    has_result: bool = False
    #: Number of items of the shared list that are already in the record.
    _learnt: int = 0

    def causes(self) -> int:
        """Returns the number of likely causes that are known."""
        self._learn()
        return len(likely_causes(self.record.failures.values()))

    def note(self, tells_something: bool, outcome: str) -> None:
        """Counts a test that has judged something. tells_something: whether it passed or its
        failure is new. outcome: of its graph."""
        self._in_a_row = 0 if tells_something else self._in_a_row + 1
        self._dying = 0 if tells_something else self._dying + (3 if outcome == HANG else 1)

    def see(self, verdict: Verdict) -> None:
        """Notes the verdict on any graph."""
        self.has_result = self.has_result or verdict.outcome in _RESULTS

    def why_enough(self) -> str:
        """Returns the reason why no further test needs to begin, or "" if there is none."""
        if self.causes() >= self.most:
            return f"{counted(self.most, 'cause')} of failures known"
        processes = self.examiner.peers.processes
        if not self.has_result and self._dying >= max(5, DYING // processes):
            return (
                f"no graph has come to a result, and {self._in_a_row} tests in a row failed only by causes "
                "that were known before"
            )
        limit = max(1, IN_A_ROW * self.most // processes)
        if self._in_a_row >= limit:
            return f"{limit} tests in a row failed only by causes that were known before"
        return ""

    def recognise(self, verdict: Verdict) -> Failure | None:
        """Returns the known failure that explains a failing verdict, without examining a smaller
        graph; None if the failure is new."""
        return recognised(list(self.record.failures.values()), verdict, self.examiner.workers.ir)

    def tells_nothing_new(self, verdict: Verdict) -> bool:
        """Returns whether a failing verdict has a specific signature, which by itself identifies
        the cause, and is known. While no graph has come to a result, any signature counts as such."""
        specific = not self.has_result or not verdict.signature.is_generic
        return specific and self.recognise(verdict) is not None

    def tell(self, failure: Failure) -> None:
        """Shares a failure with the other processes."""
        self.examiner.peers.append(_SHARED, {**failure.as_dict(), "count": 0, "cases": []})

    def _learn(self) -> None:
        for item in self.examiner.peers.items(_SHARED, self._learnt):
            self._learnt += 1
            self.record.failures.setdefault(item["id"], Failure(**item))
