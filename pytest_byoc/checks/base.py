"""Defines the class of checks. Each check is one file with a worker half and a host half.

The worker half is `observe`, which runs in the target worker, and `reload`, which runs in the
loader; they record facts. The host half is `judge`, which turns facts into findings. The worker
half uses only the standard library and NumPy and runs on Python 3.8; the host half never imports
TVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Sequence

from ..core.finding import Finding, outcome_of
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..core.job_report import JobReport
    from ..runs import LoaderRun, TargetRun


def of_death(check: str, report: JobReport, text: str, hung: str = "") -> Iterator[Finding]:
    """Yields a finding if the process of a report died.

    report: the report of a process that was started for this check alone. text: the message, with
    the fields {stage} and {how}. hung: the message for a process that hung, if it is another one.
    """
    if report.died is None or report.end is None:
        return
    stage, how = str(report.end["stage"]), report.died
    text = hung if hung and how == "hung" else text
    yield Finding(
        check, outcome_of(how), stage, how, text.format(stage=stage, how=how),
        {"printed": report.end["printed"]},
    )


def of_raised(check: str, report: JobReport, how: str) -> Iterator[Finding]:
    """Yields a finding for each exception in the report of a process started for this check alone.

    how: the circumstances, with which the message begins.
    """
    for message in report.raised():
        raised = message["raised"]
        yield Finding(
            check, "error", message["stage"], raised["type"],
            "%s %s raised %s: %s" % (how, message["stage"], raised["type"], raised["message"].strip()[-300:]),
            {"exception": raised, "executor": message.get("executor")},
        )


#: The graphs on which a check is made (`config/plan.py` selects them): every graph; a selection of
#: the graphs, for checks that cost more; those graphs of the selection with several operators.
EVERY = "every graph"
CHOSEN = "representative graphs"
FEW = "a few graphs"

#: The graphs and workers that a check may need in addition (`examination/companions.py`).
#: LARGER: the graph for a larger batch. OPENINGS: the ways to leave its extents open. TWIN: the
#: graph with other constants. EQUIVALENTS: graphs that compute the same. AGAIN: a second compilation
#: by another process. WITHOUT_LIBRARIES: a loader without the target's libraries. WITHOUT_FILES: a
#: loader from which files can be hidden. GUARDED: a loader in which malloc checks each piece of memory.
LARGER, OPENINGS, TWIN, EQUIVALENTS, AGAIN = "larger", "openings", "twin", "equivalents", "again"
WITHOUT_LIBRARIES, WITHOUT_FILES, GUARDED = "without libraries", "without files", "guarded"


@dataclass(frozen=True)
class Variant:
    """The graph or the build that a check judges, where it is not that of the reference.

    changes: the entries of the reference worker's job that differ. expected: for each set of inputs
    of that job, the outputs as values with error bounds. facts: the facts that rest on it; those
    that the check names if empty.
    """

    changes: Mapping[str, Any]
    expected: Sequence[Sequence[Any]]
    facts: tuple[str, ...] = ()


def of_other(other: Evidence | None) -> Iterator[Variant]:
    """Yields the variant for another graph, given its evidence; none if there is no evidence."""
    if other is not None:
        changes = {"graph": other.graph.to_dict(), "inputs": other.inputs, "constants": other.constants}
        yield Variant(changes, other.expected)


@dataclass(frozen=True)
class Check:
    """A conformance rule, with the functions that gather facts and the function that judges them.

    id: a short name for reports and options.
    rule, why: the rule, and the bugs it finds (texts of the report and of docs/reference/checks.md).
    made_on: EVERY, CHOSEN or FEW. where: a text on its graphs, if `made_on` alone does not describe
        them.
    owns: an exception or a death while the check runs is a finding of the check, not of the stage,
        because building and running the graph have succeeded before.
    target_alone: its `reload` runs only where TVM's own kernels run no node of the graph.
    tvm_too: TVM itself may cause its findings, so LLVM's artifact is examined in the same way
        before they are held against the target (`Evidence.deployed`).
    partition_stage: it needs no code of the target except the partition function: it examines
        partitioned modules, or LLVM's build of them with the regions inlined.
    repartitions: it partitions the graph once more, or another graph; its failure causes no other.
    records: its worker half records facts. A check without facts only detects processes that die.
    needs: any of LARGER, OPENINGS, TWIN, EQUIVALENTS, AGAIN, WITHOUT_LIBRARIES, WITHOUT_FILES,
        GUARDED. With one of the last three its `reload` runs only in that loader.
    variants: yields the jobs with which LLVM builds the same as the check. Where LLVM's outputs are
        wrong too, the facts named in the variant, or in `facts`, are withdrawn; where it dies too,
        so is the death of the target's process.
    at_smoke: names of structures on which level smoke makes the check, beside the structures on
        which it makes every check (`config/plan.py`). CHOSEN and FEW checks alone have any.
    on_kinds: kinds of graphs (`config/plan.py`) on which levels standard and full make the check.
    basic: a target can't switch it off: every verdict rests on it.
    reproduced: reproduce.py of a failure makes the check; of the others it names the command.
    by_machine: not every machine can make it: it needs a certain C library, or a second device.
    how: the circumstances in which the target runs, for the message on a process that dies in them.
    """

    id: str
    rule: str
    why: str
    judge: Callable[[Evidence], Iterable[Finding]]
    observe: Callable[[TargetRun], None] | None = None
    reload: Callable[[LoaderRun], None] | None = None
    made_on: str = EVERY
    owns: bool = False
    target_alone: bool = False
    tvm_too: bool = False
    partition_stage: bool = False
    repartitions: bool = False
    records: bool = True
    needs: tuple[str, ...] = ()
    variants: Callable[[Evidence], Iterable[Variant]] | None = None
    facts: tuple[str, ...] = ()
    by_machine: bool = False
    at_smoke: tuple[str, ...] = ()
    on_kinds: tuple[str, ...] = ()
    basic: bool = False
    reproduced: bool = False
    how: str = ""
    where: str = ""

    @property
    def own_loader(self) -> bool:
        """True if its `reload` runs in a loader of its own."""
        return not {WITHOUT_LIBRARIES, WITHOUT_FILES, GUARDED}.isdisjoint(self.needs)
