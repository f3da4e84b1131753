"""Checks runs in which only some of the inputs differ from those of the run before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun


def observe(run: TargetRun) -> None:
    between = range(2, len(run.inputs))
    if not between:
        return
    for executor in run.executors:
        with run.using(executor):
            run.first_run(executor)
            run.run(executor, 0)
            for which in (*between, 1):
                run.record("each_input", {"set": which, "arrays": run.run(executor, which)[0]})


def judge(evidence: Evidence) -> Iterator[Finding]:
    for executor, value in evidence.target.facts("each_input"):
        yield from evidence.compare(
            "each-input", "some-inputs-as-before", value["set"], value["arrays"],
            "in a run with some inputs of the run before and some others (%s executor)" % executor,
        )


CHECK = Check(
    id="each-input",
    rule="A graph of several inputs is run with the inputs A, then with the first input of B and the others "
    "of A, then with the first two of B and so on (at most four steps), at last with B: the results of "
    "each run are within their bound.",
    why="Results, packed weights or copies that are cached by some of the inputs only.",
    observe=observe,
    judge=judge,
    made_on=CHOSEN,
    reproduced=True,
)
