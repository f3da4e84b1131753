"""Shrinks a failing graph to the smallest one found that fails in the same way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ..checks import overrun
from ..config import plan
from ..core.finding import Finding
from ..core.graph import Graph
from ..examination.decision import causes
from ..examination.examiner import Examiner
from ..examination.outcome import CRASH, Verdict
from ..generation.plain import without
from ..generation.shrink_steps import reduce
from ..oracle.evaluation import KernelError
from ..record.likely_causes import may_hide_another
from ..record.listed import Failure
from ..record.sighting import Look

#: Stages in which code that the target has compiled runs.
RUNNING = ("run", "unload", "exit")
#: Largest number of known failures that are removed from one graph, since each may hide the next.
_HIDING = 3


@dataclass
class Shrinking:
    """The shrinking of one failing graph.

    original: the verdict on the graph to be shrunk. recognised: returns the known failure that
    explains a failing verdict, or None."""

    examiner: Examiner
    ir: str
    original: Verdict
    recognised: Callable[[Verdict], Failure | None]
    #: Messages on smaller graphs that could not be judged.
    unjudged: list[str] = field(default_factory=list)
    #: Whether TVM alone is left out of examinations.
    _briefly: bool = False

    def known(self) -> Failure | None:
        """Returns the known failure that explains the original verdict, or None. If the graph has
        further traits (differences from the simplest cases of its operators), a graph without the
        known failure's traits is examined: if that fails alike, it shows another failure and
        becomes the original."""
        for _ in range(_HIDING):
            known = self.recognised(self.original)
            if known is None or not may_hide_another(known, Look.of(self.original, self.ir)):
                return known
            plainer = without(self.original.graph, frozenset(known.traits), self.ir)
            verdict = self._examined(plainer) if plainer is not None else None
            if verdict is None or not verdict.fails_like(self.original):
                return known
            self.original = verdict
        return self.recognised(self.original)

    def run(self) -> tuple[Verdict, bool | None]:
        """Returns the verdict on the smallest graph found, and whether there was time to try all
        smaller ones. Returns the original verdict and None if the smallest graph fails only by
        chance.

        While graphs become smaller, they are built for the executor alone with which the first has failed,
        and TVM alone is not asked whether it fails in the same way. If the smallest one does not fail with
        everything, or TVM fails too, shrinking begins again with everything on each graph."""
        for briefly in (True, False):
            self._briefly = briefly
            reduced = reduce(self.original.graph, self._fails, self.ir, known=self._is_known)
            self._briefly = False
            shrunk = self._explained(self._examined(reduced.graph))
            if shrunk.fails_like(self.original):
                return shrunk, reduced.finished
        return self.original, None

    def _examined(self, graph: Graph) -> Verdict:
        """Returns the verdict on a graph; of several failures, the one that is being shrunk comes
        first."""
        shrunk = self.original.findings[0]
        effort = plan.again(shrunk.check)
        if self._briefly:
            verdict = self.examiner.look_briefly(graph, effort, shrunk)
        else:
            verdict = self.examiner.examine(graph, effort)
        return _by_check(verdict, shrunk.check)

    def _explained(self, verdict: Verdict) -> Verdict:
        """Returns a crash verdict whose message names a write outside a buffer, if malloc's checks
        of the ends of its blocks show one; any other verdict as it is."""
        finding = verdict.findings[0] if verdict.findings else None
        if finding is None or verdict.outcome != CRASH or not verdict.signature.is_generic:
            return verdict
        # Memory that a run has corrupted may be noticed only in a later stage.
        reported = _reported_by_malloc(finding)
        if not reported and finding.stage in RUNNING:
            guarded = self.examiner.examine(verdict.graph, plan.again(overrun.CHECK.id))
            reported = any(_reported_by_malloc(f) for f in guarded.findings if f.check == overrun.CHECK.id)
        if not reported:
            return verdict
        text = f"something is written behind (or before) an output or a piece of its own: {finding.message}"
        return replace(verdict, findings=(replace(finding, message=text), *verdict.findings[1:]))

    def _fails(self, graph: Graph) -> bool:
        return self._judged(graph, lambda verdict: verdict.fails_like(self.original))

    def _is_known(self, graph: Graph) -> bool:
        return self._judged(graph, lambda v: v.failed and self.recognised(v) is not None)

    def _judged(self, graph: Graph, answer: Callable[[Verdict], bool]) -> bool:
        """Returns the answer for the verdict on a smaller graph; False if nothing is known about that
        graph. A fault of a reference kernel must not lose the target's failure."""
        try:
            return answer(self._examined(graph))
        except KernelError as e:
            self.unjudged.append(str(e))
            return False


def _reported_by_malloc(finding: Finding) -> bool:
    return overrun.reported_by_malloc(str(finding.details.get("printed", "")))


def _by_check(verdict: Verdict, check: str) -> Verdict:
    """Returns the cause of the verdict whose first finding is the check's; the verdict itself if
    none is."""
    return next((c for c in causes(verdict) if c.findings and c.findings[0].check == check), verdict)
