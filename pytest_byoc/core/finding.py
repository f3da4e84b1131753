"""The finding: one violation that a check reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: The outcome of a finding on a wrong value, shape or dtype.
WRONG_RESULT = "wrong-result"
#: The outcome of a finding that is held against the oracle: target and LLVM agree on what it excludes.
SUSPICION = "oracle-suspect"


@dataclass(frozen=True)
class Finding:
    """One violation that a check reports of a target.

    check: the check's id. outcome: one of `outcome.OUTCOMES`. stage: where it happened. kind: a
    word that distinguishes it from the check's other findings. message: whole sentences for the
    user. details: the numbers behind it (output, index, expected, bound, actual, executor …),
    JSON-able.
    """

    check: str
    outcome: str
    stage: str
    kind: str
    message: str
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """Returns the key that has to stay the same while a counterexample shrinks."""
        return "/".join((self.check, self.outcome, self.stage, self.kind))


def outcome_of(died: str) -> str:
    """Returns the outcome of a process that died. died: how, as in `JobReport.died`."""
    return "hang" if died == "hung" else "crash"
