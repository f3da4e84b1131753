"""The failures that a session knows, with those that other processes of pytest-xdist have listed."""

from __future__ import annotations

from dataclasses import dataclass

from .examine import Examiner
from .likely_causes import likely_causes, recognised
from .outcome import Verdict
from .recorder import Failure, TargetRecord

#: The list of failures that processes share.
_SHARED = "failures"


@dataclass
class KnownFailures:
    """Of one target: those in its record."""

    examiner: Examiner
    record: TargetRecord
    #: How many of the shared list are in the record.
    _learnt: int = 0

    def causes(self) -> int:
        """How many likely causes are known."""
        self._learn()
        return len(likely_causes(self.record.failures.values()))

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
