"""What a check is: one file with two halves.

`observe` runs in the target worker and `reload` in the loader worker; they record facts. `judge`
runs on the host and turns facts into findings. Worker halves use the standard library and NumPy
only and run on Python 3.8; the host's half never sees TVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Iterable, Iterator

from ..core.finding import Finding, outcome_of
from .evidence import Evidence

if TYPE_CHECKING:
    from ..core.job_report import JobReport
    from ..runs import LoaderRun, TargetRun


def of_death(check: str, report: JobReport, text: str, hung: str = "") -> Iterator[Finding]:
    """A check's finding on how the process of a report that is its own has died, if it has. text: for the
    user, with {stage} and {how}; hung: where it hung, if that is told otherwise."""
    if report.died is None or report.end is None:
        return
    stage, how = str(report.end["stage"]), report.died
    text = hung if hung and how == "hung" else text
    yield Finding(
        check, outcome_of(how), stage, how, text.format(stage=stage, how=how),
        {"printed": report.end["printed"]},
    )


def of_raised(check: str, report: JobReport, how: str) -> Iterator[Finding]:
    """Findings of a check on what was raised in a report that is its own. how: in what circumstances."""
    for message in report.raised():
        raised = message["raised"]
        yield Finding(
            check, "error", message["stage"], raised["type"],
            "%s %s raised %s: %s" % (how, message["stage"], raised["type"], raised["message"].strip()[-300:]),
            {"exception": raised, "executor": message.get("executor")},
        )


#: On which graphs a check is made (see `selection`): on all; on a chosen few, since it costs more; of these
#: on those of several operators.
EVERY = "every graph"
CHOSEN = "chosen graphs"
FEW = "few graphs"


@dataclass(frozen=True)
class Check:
    """id: short, for reports and options. rule: what must hold. why: the bugs it sees. made: EVERY, CHOSEN or
    FEW. where: on which of these graphs, if not all. (Sentences of the report and of docs/checks.md.)
    owns: what raises or dies while it is the check's turn is the check's finding, and not that of the stage:
    what it needs of build and run has succeeded before.
    target_alone: its `reload` is made only where TVM's own kernels run nothing of the graph.
    tvm_too: what it finds may be TVM's own doing: LLVM's artifact is looked at before it is held against
    the target (`Evidence.deployed`).
    partition_stage: it needs no code of the target's but the partition function: it looks at partitioned
    modules, or at what LLVM makes of them with the regions inlined.
    records: whether its worker halves record facts; one that does not finds processes that die.
    own_loader: its `reload` is made by a loader of its own, see `companions`.
    how: in what circumstances the target runs there, for the message where a process dies of them.
    """

    id: str
    rule: str
    why: str
    judge: Callable[[Evidence], Iterable[Finding]]
    observe: Callable[[TargetRun], None] | None = None
    reload: Callable[[LoaderRun], None] | None = None
    made: str = EVERY
    owns: bool = False
    target_alone: bool = False
    tvm_too: bool = False
    partition_stage: bool = False
    own_loader: bool = False
    records: bool = True
    how: str = ""
    where: str = ""
