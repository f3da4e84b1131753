"""Checks that partitioning, building and running leave the state of the process unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from ..runs import surroundings
from .base import CHOSEN, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..core.job_report import JobReport
    from ..runs import LoaderRun, TargetRun


def observe(run: TargetRun) -> None:
    for executor in run.executors:
        run.first_run(executor)
    run.record("surroundings", surroundings.changes(run.surroundings))


def reload(run: LoaderRun) -> None:
    if run.loadable:
        run.record("surroundings", surroundings.changes(run.surroundings))


def judge(evidence: Evidence) -> Iterator[Finding]:
    own = set(_changed(evidence.deployed))
    for where, stage, report in (
        ("a fresh process that has loaded the artifact and run it", "run", evidence.loader),
        ("the process that has partitioned the graph, built it and run it", "build", evidence.target),
    ):
        changed = [what for what in _changed(report) if what not in own]
        if changed:
            text = "in %s, the state of the process has changed: %s." % (where, "; ".join(changed))
            yield Finding("surroundings", "error", stage, "changed", text, {"changed": changed})
            return


def _changed(report: JobReport) -> Iterator[str]:
    for _, changed in report.facts("surroundings"):
        yield from changed


CHECK = Check(
    id="surroundings",
    rule="After partitioning, building and running, and after loading and running in a fresh process, the "
    "state of the process is unchanged: the cores it may run on, its working directory, umask, locale, "
    "limits, standard streams, blocked signals, signal handlers, and the seeds of Python's and NumPy's "
    "random numbers (numbers may be drawn). Changes that TVM's own build makes too are not held against "
    "the target.",
    why="Pinned threads, a working directory changed for a tool, handlers and locales that a library sets "
    "for itself, seeds set for tuning.",
    observe=observe,
    reload=reload,
    judge=judge,
    made_on=CHOSEN,
    # TVM's thread pool may pin the thread that starts it.
    tvm_too=True,
)
