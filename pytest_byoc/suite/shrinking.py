"""From a failing graph to the smallest one that fails so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ..checks import overrun
from ..config import plan
from ..core.finding import Finding
from ..core.graph import Graph
from ..examination.decision import causes
from ..examination.examiner import Examiner
from ..examination.outcome import CRASH, Verdict
from ..examination.signature import suspects
from ..generation.plain import without
from ..generation.reduce import reduce
from ..record.target_record import Failure

#: Stages in which what the target has compiled is at work.
RUNNING = ("run", "unload", "exit")
#: Known failures that one graph may show, each hiding the next.
_HIDING = 3


@dataclass
class Shrinking:
    """original: the verdict of the graph that is to become small. recognised: the failure that a
    failing verdict is known by, if it is."""

    examiner: Examiner
    ir: str
    original: Verdict
    recognised: Callable[[Verdict], Failure | None]

    def known(self) -> Failure | None:
        """The failure that the graph is known by. Where more in it than that needs differs from the simplest
        case, it is examined without what is known: if it fails all the same, it is from then on the original,
        for it shows something else."""
        for _ in range(_HIDING):
            known = self.recognised(self.original)
            graph = self.original.graph
            if known is None or not known.traits or len(graph.nodes) > 1:
                return known
            if not known.signature.is_generic or not suspects(graph, self.ir) - set(known.traits):
                return known
            plainer = without(graph, frozenset(known.traits), self.ir)
            verdict = self._examined(plainer) if plainer is not None else None
            if verdict is None or not verdict.fails_like(self.original):
                return known
            self.original = verdict
        return self.recognised(self.original)

    def run(self) -> tuple[Verdict, bool | None]:
        """The verdict of the smallest graph found, and whether there was time to try all smaller ones; the
        original and None where what was found fails by chance."""
        reduced = reduce(self.original.graph, self._fails, self.ir, known=self._is_known)
        shrunk = self._explained(self._examined(reduced.graph))
        return (shrunk, reduced.finished) if shrunk.fails_like(self.original) else (self.original, None)

    def _examined(self, graph: Graph) -> Verdict:
        """The verdict, by the failure that is being shrunk if there are several."""
        check = self.original.findings[0].check
        return _by_check(self.examiner.examine(graph, plan.again(check)), check)

    def _explained(self, verdict: Verdict) -> Verdict:
        """A crash whose reason is that something was written past an end says so first: where malloc looks at
        the ends of what it hands out, it finds that."""
        finding = verdict.findings[0] if verdict.findings else None
        if finding is None or verdict.outcome != CRASH or not verdict.signature.is_generic:
            return verdict
        # What a run has broken may be found in whichever stage comes next.
        told = _told_by_malloc(finding)
        if not told and finding.stage in RUNNING:
            watched = self.examiner.examine(verdict.graph, plan.again(overrun.CHECK.id))
            told = any(_told_by_malloc(f) for f in watched.findings if f.check == overrun.CHECK.id)
        if not told:
            return verdict
        text = f"something is written behind (or before) an output or a piece of its own: {finding.message}"
        return replace(verdict, findings=(replace(finding, message=text), *verdict.findings[1:]))

    def _fails(self, graph: Graph) -> bool:
        return self._examined(graph).fails_like(self.original)

    def _is_known(self, graph: Graph) -> bool:
        verdict = self._examined(graph)
        return verdict.failed and self.recognised(verdict) is not None


def _told_by_malloc(finding: Finding) -> bool:
    return overrun.told_by_malloc(str(finding.details.get("printed", "")))


def _by_check(verdict: Verdict, check: str) -> Verdict:
    """The verdict with what it has of a check first, where that is a cause of its own."""
    return next((c for c in causes(verdict) if c.findings and c.findings[0].check == check), verdict)
