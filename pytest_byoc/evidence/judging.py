"""What the checks find in the evidence on a graph."""

from __future__ import annotations

from dataclasses import dataclass

from ..checks import CHECKS
from ..core.finding import SUSPICION, Finding
from .evidence import Evidence


@dataclass(frozen=True)
class Judgement:
    """findings: violations, in the order of the checks. suspicions: values on which target and LLVM agree
    against the oracle, in words."""

    findings: tuple[Finding, ...]
    suspicions: tuple[str, ...]

    def failing(self) -> set[str]:
        """Ids of the checks that found something."""
        return {finding.check for finding in self.findings}


def judge(evidence: Evidence) -> Judgement:
    """Applies the checks that the target has not switched off. The evidence stays as it is."""
    found = [f for check in CHECKS if check.id not in evidence.without_checks for f in check.judge(evidence)]
    return Judgement(
        tuple(f for f in found if f.outcome != SUSPICION),
        tuple(f.message for f in found if f.outcome == SUSPICION),
    )
