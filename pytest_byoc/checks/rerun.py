"""A second run with other inputs is right too, and a third with the first inputs repeats the first.

Where the caller's tensors are read in place (the VMs) the second run's are those of the first, filled again,
and the third run's lie elsewhere (`Tensors` in ir/shared.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import Check
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun


def observe(run: TargetRun) -> None:
    for executor in run.executors:
        with run.using(executor):
            run.first_run(executor)
            run.record("rerun_other", run.run(executor, 1)[0])
            run.record("rerun_first", run.run(executor, 0)[0])


def judge(evidence: Evidence) -> Iterator[Finding]:
    for executor, arrays in evidence.target.facts("rerun_other"):
        yield from evidence.compare(
            "rerun", "second-run", 1, arrays, "in a second run, with other inputs, under %s" % executor
        )
    yield from evidence.repeats(
        "rerun", "run", "not-repeatable", evidence.target.facts("rerun_first"),
        "the third run (the first one's inputs again, under %s)",
    )


CHECK = Check(
    id="rerun",
    rule="Run with inputs A, with B in the same tensors, with A in others: B's results are within their "
    "bound, the second A's equal the first's bit by bit.",
    why="State kept between runs, caches keyed wrongly.",
    observe=observe,
    judge=judge,
)
