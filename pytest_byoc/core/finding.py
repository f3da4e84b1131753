"""What a check holds against a target."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: The outcome of a finding on a wrong value, shape or dtype.
WRONG_RESULT = "wrong-result"
#: The outcome of a finding that is held against the oracle: target and LLVM agree on what it excludes.
SUSPICION = "oracle-suspect"


@dataclass(frozen=True)
class Finding:
    """One thing a check holds against the target.

    check: its id. outcome: of `outcome.OUTCOMES`. stage: where it happened. kind: what tells it
    from other findings of the check. message: for the user, whole sentences. details: numbers
    behind it (output, index, expected, bound, actual, executor …), JSON-able.
    """

    check: str
    outcome: str
    stage: str
    kind: str
    message: str
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """What stays the same while a counterexample shrinks."""
        return "/".join((self.check, self.outcome, self.stage, self.kind))


def outcome_of(died: str) -> str:
    """The outcome of a process that has died, by how it did (`JobReport.died`)."""
    return "hang" if died == "hung" else "crash"
