"""Checks that every element of every output is within its error bound, under every executor."""

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
            run.record("outputs", {"set": 0, "arrays": run.first_run(executor)[0]})


def judge(evidence: Evidence) -> Iterator[Finding]:
    for executor, value in evidence.target.facts("outputs"):
        how = "with the %s executor" % executor
        for finding in evidence.compare("numerics", "wrong-value", value["set"], value["arrays"], how):
            finding.details["executor"] = executor
            yield finding


CHECK = Check(
    id="numerics",
    rule="Every element that is not ambiguous is within its bound; shapes and dtypes are right.",
    why="A wrong attribute, axis, layout, operand order or constant.",
    observe=observe,
    judge=judge,
    basic=True,
    reproduced=True,
)
