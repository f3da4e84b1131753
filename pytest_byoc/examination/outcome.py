"""The verdict on one example, and the truth table that decides it.

Each element of each output is judged twice, target and LLVM against the same bound:

    target    LLVM      outcome
    inside    inside    pass
    outside   inside    wrong-result: the target
    inside    outside   reference-wrong: a bug of TVM's; does not fail the target
    outside   outside   if they agree, oracle-suspect: our kernel or bound is in doubt, reported as
                        our own error; otherwise wrong-result

A stage that fails for the target and for LLVM alike is reference-wrong too. Nothing offloaded is
not-offloaded, never pass; a graph most of whose elements cannot be judged is inconclusive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.finding import SUSPICION, WRONG_RESULT, Finding
from ..core.graph import Graph
from .signature import NUMBERS, Signature, signature

PASS = "pass"
CRASH = "crash"
HANG = "hang"
ERROR = "error"
NOT_OFFLOADED = "not-offloaded"
INCONCLUSIVE = "inconclusive"
REFERENCE_WRONG = "reference-wrong"
ORACLE_SUSPECT = SUSPICION

#: Every outcome an example can end in, in the order of the summary.
OUTCOMES = (
    PASS,
    WRONG_RESULT,
    CRASH,
    HANG,
    ERROR,
    NOT_OFFLOADED,
    INCONCLUSIVE,
    REFERENCE_WRONG,
    ORACLE_SUSPECT,
)
#: Those that fail the target.
FAILURES = (WRONG_RESULT, CRASH, HANG, ERROR)
#: Of findings on a later run, with other inputs.
LATER = frozenset(("second-run", "some-inputs-as-before"))
#: Of several graphs the first of these that one ended in is the outcome of all: failures, then a pass,
#: then what is neither.
_WORST = (
    CRASH,
    HANG,
    ERROR,
    WRONG_RESULT,
    PASS,
    INCONCLUSIVE,
    REFERENCE_WRONG,
    ORACLE_SUSPECT,
    NOT_OFFLOADED,
)


def worst(*outcomes: str) -> str:
    """The outcome of several graphs of one case."""
    return min(outcomes, key=_WORST.index)


@dataclass(frozen=True)
class Verdict:
    """One example, judged. findings: what is held against the target, causes first; empty unless the
    outcome is a failure. offloaded: for each node of the graph, whether the target runs it; placement:
    in which region (its position, or None). boundary_bytes: what a run passes into regions and out of
    them. notes: what was found out beside, for the report. evidence: everything seen (arrays, printed
    text …). not_checked: checks that could not be made, with the reason. smallest: the least number of
    regions that would do (see `fragmentation`). merges: whether a region holds several operators or patterns.
    speed: median seconds of a run of the "target" and of "llvm", where that was measured. made: ids of the
    checks that were made on it.
    """

    graph: Graph
    outcome: str
    findings: tuple[Finding, ...] = ()
    offloaded: tuple[bool, ...] = ()
    regions: int = 0
    notes: tuple[str, ...] = ()
    evidence: Any = field(default=None, compare=False, repr=False)
    placement: tuple[int | None, ...] = ()
    boundary_bytes: int = 0
    not_checked: tuple[str, ...] = ()
    smallest: int = 0
    merges: bool = False
    speed: Mapping[str, float] = field(default_factory=dict)
    made: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        return self.outcome in FAILURES

    @property
    def reason(self) -> str:
        """Why it is no pass, as a test's skip says it: the outcome, and what is known of it."""
        told = "the target takes none of it"
        if self.outcome == INCONCLUSIVE:
            told = "most of its elements cannot be judged: no bound is known of them"
        return f"{self.outcome}: {'; '.join(self.notes) or told}"

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the functions that the graph's subgraphs became."""
        regions = getattr(self.evidence, "regions", None) or ()
        return tuple(region["symbol"] for region in regions if region.get("symbol"))

    @property
    def signature(self) -> Signature:
        """Stays the same while a counterexample shrinks. Of a failing verdict alone."""
        return signature(self.findings[0], self.symbols)

    def fails_like(self, other: Verdict) -> bool:
        """Whether both fail in the same way: their signatures are the same, or both crash in one stage of one
        check, of whatever signal (that hangs on what lies beside what was written to), or both find numbers
        that are wrong, by however much. What the other shows in a later run alone, by chance of its inputs,
        this one may show in the first."""
        if not (self.failed and other.failed):
            return False
        mine, theirs = self.signature, other.signature
        if mine.check == "numerics" and mine.kind in NUMBERS and theirs.kind in LATER:
            return True
        return mine.says == theirs.says and mine.group == theirs.group


class ConformanceFailure(AssertionError):
    """Raised by a test whose graph the target gets wrong. `verdict` holds the whole story."""

    def __init__(self, message: str, verdict: Verdict) -> None:
        super().__init__(message)
        self.verdict = verdict
