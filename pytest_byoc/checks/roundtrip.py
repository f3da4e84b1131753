"""Checks that the exported artifact gives the same outputs without the vendor's Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun, TargetRun


def observe(run: TargetRun) -> None:
    for executor in run.executors:
        with run.using(executor):
            run.record("artifact", run.export(executor))


def reload(run: LoaderRun) -> None:
    for executor in run.artifacts:
        with run.using(executor):
            run.record("reloaded", run.load_and_run(executor, 0))


def judge(evidence: Evidence) -> Iterator[Finding]:
    if evidence.apart:
        for executor, arrays in evidence.loader.facts("reloaded"):
            how = "from the artifact loaded in a fresh process (%s executor)" % executor
            yield from evidence.compare("roundtrip", "differs", 0, arrays, how)
        return
    yield from evidence.repeats(
        "roundtrip", "load", "differs", evidence.loader.facts("reloaded"),
        "the artifact loaded in a fresh process (%s executor)",
    )


CHECK = Check(
    id="roundtrip",
    rule="The artifact, exported and then loaded and run in a process without the vendor's Python, gives the "
    "same outputs bit by bit.",
    why="Constants that are lost when saved, loaders that are not registered, names that clash.",
    observe=observe,
    reload=reload,
    judge=judge,
    basic=True,
    reproduced=True,
)
