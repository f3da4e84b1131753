"""Checks that two executors of one artifact, or of two loads of it, do not affect each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun


def reload(run: LoaderRun) -> None:
    for executor in run.loadable:
        with run.using(executor):
            run.stage("load")
            first = run.load(executor)
            second, loaded_twice = first.fresh(), run.load(executor)
            run.stage("run")
            first.run(run.inputs[0])
            for other in (second, loaded_twice):
                run.record("interleaved_other", other.run(run.inputs[1])[0])
                run.record("interleaved_first", first.run(run.inputs[0])[0])


def judge(evidence: Evidence) -> Iterator[Finding]:
    for executor, arrays in evidence.loader.facts("interleaved_other"):
        yield from evidence.compare(
            "instances", "other-instance", 1, arrays,
            "from another instance in the same process (%s executor)" % executor,
        )
    yield from evidence.repeats(
        "instances", "run", "first-instance", evidence.loader.facts("interleaved_first"),
        "the first instance, run after another one (%s executor)",
    )


CHECK = Check(
    id="instances",
    rule="Instance 1 is run with the inputs A, instance 2 (of the same loaded library, then of another load) "
    "with B, instance 1 with A again: the results for B are within their bound, and those for A equal the "
    "first run's bit by bit.",
    why="State shared by instances; handles that run out.",
    how="with another instance in the same process",
    reload=reload,
    judge=judge,
    owns=True,
)
