"""Checks that the artifact exported as .tar, and compiled by its loader, gives the same outputs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun, TargetRun


def observe(run: TargetRun) -> None:
    if run.target.export_options:
        run.not_checked("the target's export_options are those of a shared library")
        return
    for executor in run.executors:
        with run.using(executor):
            # If the graph itself or the shared library fails, the next two lines raise the same
            # exception again, which is reported once.
            run.first_run(executor)
            run.export(executor)
            run.pass_on(run.export_as(executor, "archive_%s.tar" % executor))


def reload(run: LoaderRun) -> None:
    for executor in run.loadable:
        path = run.passed_on(executor)
        if path is None:
            continue
        with run.using(executor):
            run.record("from_archive", run.run_loaded(partial(run.ir.load_archive, path, executor)))


def judge(evidence: Evidence) -> Iterator[Finding]:
    yield from evidence.repeats(
        "archive", "load", "differs", evidence.loader.facts("from_archive"),
        "the artifact exported as .tar, compiled and loaded in a fresh process (%s executor)",
    )


CHECK = Check(
    id="archive",
    rule="The artifact exported as `.tar`, and compiled and loaded by `load_module` in another process, "
    "gives the same outputs bit by bit.",
    why="Generated source that compiles only in the environment of the codegen.",
    observe=observe,
    reload=reload,
    judge=judge,
    made_on=CHOSEN,
    owns=True,
    at_smoke=("large_weight",),
)
