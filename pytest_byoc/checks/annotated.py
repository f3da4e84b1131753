"""A region that a user has marked by hand is taken as it is, or taken over, or refused."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import FEW, Check
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun


def observe(run: TargetRun) -> None:
    executor = run.executors[0]
    # Raises again, and is told once, where the graph itself fails.
    run.first_run(executor)
    marked = run.marked_by_hand()
    if marked is None:
        run.not_checked("TVM has no form for such a mark in what the target takes of the graph")
        return
    try:
        partitioned = run.partition(marked)
    except Exception:  # refused, as it may be
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
                "an operator that stands between compiler_begin and compiler_end, as users write them, still "
                "does behind partitioning, which raised nothing: %s of the module's main. TVM can't build "
                "that, and its error names neither." % left,
            )
    for executor, arrays in evidence.target.facts("annotated"):
        yield from evidence.compare(
            "annotated", "wrong-value", 0, arrays,
            "with a region marked by hand before partitioning (%s executor)" % executor,
        )


CHECK = Check(
    id="annotated",
    rule="With one operator that the target takes marked by hand as a region of its (Relay: "
    "`compiler_begin` and `compiler_end`; Relax: `FuseOpsByPattern` with a pattern of the target's and "
    "`annotate_codegen`), partitioning or compiling raises an error, or no mark is left and the results are "
    "within their bound.",
    why="Passes that skip what is marked, or mark it again.",
    observe=observe,
    judge=judge,
    made=FEW,
    owns=True,
    partition_stage=True,
    repartitions=True,
)
