"""Checks that a region marked by hand before partitioning is compiled correctly, or refused."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import FEW, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun


def observe(run: TargetRun) -> None:
    executor = run.executors[0]
    # If the graph itself fails, this raises the same exception again, which is reported once.
    run.first_run(executor)
    marked = run.marked_by_hand()
    if marked is None:
        run.not_checked("no operator that the target offloads can be marked by hand")
        return
    try:
        partitioned = run.partition(marked)
    except Exception:  # The target may refuse such a module.
        return
    left = run.ir.modules.marks(partitioned)
    run.record("marks_left", left)
    if left:
        return
    with run.using(executor):
        arrays = run.unless_refused(
            partial(run.run_at, partitioned, executor=executor, level=run.target.opt_level)
        )
        if arrays is not None:
            run.record("annotated", arrays)


def judge(evidence: Evidence) -> Iterator[Finding]:
    for _, left in evidence.target.facts("marks_left"):
        if left:
            yield Finding(
                "annotated", "error", "partition", "left",
                "an operator that a user has put between compiler_begin and compiler_end is still between "
                "them after partitioning, which raised no exception: %s of the module's main. TVM can't "
                "build such a module, and its error message names neither." % left,
            )
    for executor, arrays in evidence.target.facts("annotated"):
        yield from evidence.compare(
            "annotated", "wrong-value", 0, arrays,
            "with a region marked by hand before partitioning (%s executor)" % executor,
        )


CHECK = Check(
    id="annotated",
    rule="One operator that the target offloads is marked by hand as a region of the target (Relay: "
    "`compiler_begin` and `compiler_end`; Relax: `FuseOpsByPattern` with one of the target's patterns and "
    "`annotate_codegen`). Then partitioning or compiling raises an error, or no mark is left after "
    "partitioning and the results are within their bound.",
    why="Passes that skip marked operators, or mark them a second time.",
    observe=observe,
    judge=judge,
    made_on=FEW,
    owns=True,
    partition_stage=True,
    repartitions=True,
)
