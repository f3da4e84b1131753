"""Checks a second run with other inputs, and that a third with the first inputs repeats the first.

Where the caller's tensors are read in place (the VMs), the second run refills the tensors of the
first, and the third run's are at other addresses (`Tensors` in ir/shared.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import Check
from .evidence_interface import Evidence

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
            "rerun", "second-run", 1, arrays, "in a second run, with other inputs (%s executor)" % executor
        )
    yield from evidence.repeats(
        "rerun", "run", "not-repeatable", evidence.target.facts("rerun_first"),
        "the third run, which has the inputs of the first (%s executor)",
    )


CHECK = Check(
    id="rerun",
    rule="The graph is run with the inputs A, then with B in the same tensors, then with A in other tensors: "
    "the results for B are within their bound, and the second results for A equal the first bit by bit.",
    why="State kept between runs; caches with a wrong key.",
    observe=observe,
    judge=judge,
    reproduced=True,
)
