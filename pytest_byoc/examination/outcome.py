"""The verdict on one graph, and the truth table that decides it.

Each element of each output is compared with its bound for the target and for LLVM:

    target    LLVM      outcome
    inside    inside    pass
    outside   inside    wrong-result: a bug of the target
    inside    outside   reference-wrong: a bug of TVM, which does not fail the target
    outside   outside   oracle-suspect if both agree: our kernel or bound is in doubt, which is
                        reported as our own error; otherwise wrong-result

A stage that fails in the same way for the target and for LLVM is reference-wrong too. A graph of
which nothing is offloaded is not-offloaded and never passes. A graph is inconclusive if the bound
can judge less than half of its elements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..core.finding import SUSPICION, WRONG_RESULT, Finding
from ..core.graph import Graph
from ..evidence.speed import Speed
from .signature import NUMBERS, Signature, signature

PASS = "pass"
CRASH = "crash"
HANG = "hang"
ERROR = "error"
NOT_OFFLOADED = "not-offloaded"
INCONCLUSIVE = "inconclusive"
REFERENCE_WRONG = "reference-wrong"
ORACLE_SUSPECT = SUSPICION

#: All outcomes, in the order of the summary.
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
#: The outcomes that fail the target.
FAILURES = (WRONG_RESULT, CRASH, HANG, ERROR)
#: The kinds of findings on a later run, with other inputs.
LATER = frozenset(("second-run", "some-inputs-as-before"))
#: The order in which the outcome of several graphs is determined: the first of these outcomes that
#: a graph has is that of all. Failures come first, then a pass, then outcomes that are neither.
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
    """Returns the outcome of several graphs of one case."""
    return min(outcomes, key=_WORST.index)


@dataclass(frozen=True)
class Verdict:
    """The judgement on one graph.

    findings: the violations of the target, causes first; empty unless the outcome is a failure.
    offloaded: for each node of the graph, whether the target runs it. regions: the number of
    regions. notes: further observations for the report. evidence: all evidence (arrays, printed
    text …), or None if it was not kept. placement: for each node, the position of its region, or
    None. boundary_bytes: the bytes that a run passes into regions and out of them. not_checked: the
    checks that could not be made, with the reason. smallest: the least number of regions that could
    hold the offloaded nodes (see `fragmentation`). merges: whether a region holds several operators
    or patterns. speed: the measurement beside LLVM, if one was made. checks_made: the ids of the checks
    that were made. taken_over: whether an earlier session's pass is taken over, since the code is the same.
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
    speed: Speed | None = None
    checks_made: tuple[str, ...] = ()
    taken_over: bool = False

    @property
    def failed(self) -> bool:
        return self.outcome in FAILURES

    @property
    def unjudged(self) -> bool:
        """Returns whether only the lack of a narrow bound keeps it from a pass."""
        return self.outcome == INCONCLUSIVE and not self.notes

    @property
    def reason(self) -> str:
        """Returns why it is no pass, for a skipped test: the outcome, and its notes or meaning."""
        meaning = "the target offloads nothing of the graph"
        if self.outcome == INCONCLUSIVE:
            meaning = "most elements of the results cannot be judged, since no bound is known for them"
        return f"{self.outcome}: {'; '.join(self.notes) or meaning}"

    @property
    def symbols(self) -> tuple[str, ...]:
        """Returns the symbols of the graph's regions."""
        regions = getattr(self.evidence, "regions", None) or ()
        return tuple(region["symbol"] for region in regions if region.get("symbol"))

    @property
    def signature(self) -> Signature:
        """Returns the signature of a failing verdict; it stays the same while the graph shrinks."""
        return signature(self.findings[0], self.symbols)

    def fails_like(self, other: Verdict) -> bool:
        """Returns whether both verdicts fail in the same way.

        They do if their signatures have the same `group` and `says`. The signal of a crash does not
        matter, since it depends on the memory next to the one written to; nor does the size of an
        error. If the other fails only in a later run, because of its inputs, this one may fail in
        the first run.
        """
        if not (self.failed and other.failed):
            return False
        mine, theirs = self.signature, other.signature
        if mine.check == "numerics" and mine.kind in NUMBERS and theirs.kind in LATER:
            return True
        return mine.says == theirs.says and mine.group == theirs.group


class ConformanceFailure(AssertionError):
    """Raised by a test whose graph the target fails. verdict: the failing verdict."""

    def __init__(self, message: str, verdict: Verdict) -> None:
        super().__init__(message)
        self.verdict = verdict
