"""Applies the checks to the evidence on a graph."""

from __future__ import annotations

from dataclasses import dataclass

from ..checks import CHECKS
from ..core.finding import SUSPICION, Finding
from .evidence import Evidence


@dataclass(frozen=True)
class Judgement:
    """The findings of all checks on one graph.

    findings: the violations, in the order of the checks. suspicions: messages on values on which
    target and LLVM agree against the oracle.
    """

    findings: tuple[Finding, ...]
    suspicions: tuple[str, ...]

    def failing(self) -> set[str]:
        """Returns the ids of the checks that have findings."""
        return {finding.check for finding in self.findings}


def judge(evidence: Evidence) -> Judgement:
    """Applies the checks that the target has not switched off; leaves the evidence unchanged."""
    checks = [check for check in CHECKS if check.id not in evidence.without_checks]
    findings = [finding for check in checks for finding in check.judge(evidence)]
    return Judgement(
        tuple(f for f in findings if f.outcome != SUSPICION),
        tuple(f.message for f in findings if f.outcome == SUSPICION),
    )
