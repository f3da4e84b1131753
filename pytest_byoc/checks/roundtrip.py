"""The artifact, exported and loaded in a fresh process without the vendor's Python, does the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import Check
from .evidence import Evidence

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
    yield from evidence.repeats(
        "roundtrip", "load", "differs", evidence.loader.facts("reloaded"),
        "the artifact loaded in a fresh process (%s executor)",
    )


CHECK = Check(
    id="roundtrip",
    rule="Exported, loaded in a process without the vendor's Python, run: equal bit by bit.",
    why="Constants lost on save, loaders not registered, names that clash.",
    observe=observe,
    reload=reload,
    judge=judge,
)
