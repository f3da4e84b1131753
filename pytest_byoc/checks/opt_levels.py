"""Checks the partitioned module at every opt_level, not only at the target's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun

LEVELS = (0, 1, 2, 3)


def observe(run: TargetRun) -> None:
    if run.target.build is not None:
        run.not_checked("the target builds by a function of its own, which decides the level")
        return
    for executor in run.executors:
        with run.using(executor):
            # If the target's own level fails, this raises the same exception again, which is
            # reported once.
            run.first_run(executor)
            for level in LEVELS:
                if level != run.target.opt_level:
                    _at(run, executor, level)


def _at(run: TargetRun, executor: str, level: int) -> None:
    arrays = run.unless_tvm_fails(
        lambda module: run.run_at(module, executor, level), run.partitioned(), run.lowered_again,
        "at opt_level %d, %s executor" % (level, executor),
    )
    if arrays is not None:
        run.record("at_level", {"level": level, "arrays": arrays})


def judge(evidence: Evidence) -> Iterator[Finding]:
    for executor, value in evidence.target.facts("at_level"):
        yield from evidence.compare(
            "opt-levels", "wrong-value", 0, value["arrays"],
            "built at opt_level %d (%s executor)" % (value["level"], executor),
        )


CHECK = Check(
    id="opt-levels",
    rule="Built at each opt_level from 0 to 3, the results are within their bound.",
    why="Codegens that decide by the PassContext, and were tested in only one.",
    where=f"{CHOSEN}, each operator's large case",
    observe=observe,
    judge=judge,
    made_on=CHOSEN,
    owns=True,
    on_kinds=("large tensors",),
)
