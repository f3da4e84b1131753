"""Checks that a run does not modify its inputs."""

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
            run.record("modified", run.first_run(executor)[1])


def judge(evidence: Evidence) -> Iterator[Finding]:
    for executor, names in evidence.target.facts("modified"):
        if names:
            yield Finding(
                "inputs-unmodified",
                "wrong-result",
                "run",
                "modified",
                "the run with the %s executor overwrote its input %s."
                % (executor, ", ".join("%" + n for n in names)),
                {"executor": executor, "inputs": names},
            )


CHECK = Check(
    id="inputs-unmodified",
    rule="After a run every input holds the same bytes as before.",
    why="Kernels that work in place, or write into the wrong buffer.",
    observe=observe,
    judge=judge,
    reproduced=True,
)
