"""What a check is: one file with two halves.

`observe` runs in the target worker and `reload` in the loader worker; they record facts. `judge`
runs on the host and turns facts into findings. Worker halves use the standard library and NumPy
only and run on Python 3.8; the host's half never sees TVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Sequence

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


#: The graphs on which a check is made (`config/plan.py`): every graph; the graphs with all checks, since it
#: costs more; of these the graphs of several operators.
EVERY = "every graph"
CHOSEN = "chosen graphs"
FEW = "few graphs"

#: What a check may need beside the examination of a graph (`examination/companions.py`). LARGER: the graph
#: for a larger batch. TWIN: the graph with other constants. AGAIN: a second compilation by another process.
#: BARE: a loader without the target's libraries. WATCHED: a loader in which malloc checks each piece of
#: memory.
LARGER, TWIN, AGAIN, BARE, WATCHED = "larger", "twin", "again", "bare", "watched"


@dataclass(frozen=True)
class Variant:
    """The graph or the build that a check looks at, where it is not that of the reference.

    changes: entries of the reference worker's job that differ. expected: for each set of inputs of that job,
    the outputs as values with error bounds."""

    changes: Mapping[str, Any]
    expected: Sequence[Sequence[Any]]


def of_other(other: Evidence | None) -> Variant | None:
    """The job for another graph, whose evidence is given; None where there is none."""
    if other is None:
        return None
    changes = {"graph": other.graph.to_dict(), "inputs": other.inputs, "constants": other.constants}
    return Variant(changes, other.expected)


@dataclass(frozen=True)
class Check:
    """A conformance rule, with the halves that gather facts and the half that judges them.

    id: short, for reports and options. rule: the rule. why: the bugs it sees. made: EVERY, CHOSEN or FEW.
    where: on which of these graphs, if not on all. (Sentences of the report and of the documentation.) owns:
    an exception or a death in the check's turn is the check's finding and not the stage's: what it needs of
    build and run has succeeded before. target_alone: its `reload` runs only where TVM's own kernels run
    nothing of the graph. tvm_too: its findings may be TVM's own doing: LLVM's artifact is looked at before
    they are held against the target (`Evidence.deployed`). partition_stage: it needs no code of the target
    but the partition function: it looks at partitioned modules, or at LLVM's build of them with the regions
    inlined. repartitions: it partitions the graph once more, or another graph: its failure causes no other
    one. records: whether its worker halves record facts; a check that does not finds processes that die.
    needs: LARGER, TWIN, AGAIN, BARE, WATCHED. With BARE or WATCHED its `reload` runs in that loader alone.
    variant: the job in which LLVM builds what the check looks at; where LLVM's outputs are wrong too, the
    facts named by `facts` are withdrawn. None: there is no such job for the evidence. by_machine: not every
    machine can make it: it needs a certain C library, or a second device. how: the circumstances in which
    the target runs, for the message where a process dies of them."""

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
    repartitions: bool = False
    records: bool = True
    needs: tuple[str, ...] = ()
    variant: Callable[[Evidence], Variant | None] | None = None
    facts: tuple[str, ...] = ()
    by_machine: bool = False
    how: str = ""
    where: str = ""

    @property
    def own_loader(self) -> bool:
        """Whether its `reload` runs in a loader of its own."""
        return BARE in self.needs or WATCHED in self.needs
