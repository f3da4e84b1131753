"""On the way from the first set of inputs to the second, one input after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence import Evidence

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
            "where some inputs are those of the run before and others are not (%s executor)" % executor,
        )


CHECK = Check(
    id="each-input",
    rule="A graph of several inputs, run with A, then with B's first input and A's others, with B's first "
    "two (four steps at most), at last with B: each is within its bound.",
    why="Results, packed weights or copies kept by some of the inputs alone.",
    observe=observe,
    judge=judge,
    made=CHOSEN,
)
