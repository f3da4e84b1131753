"""Checks that library, graph JSON and parameters, saved as three files, give the same outputs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun, TargetRun


def observe(run: TargetRun) -> None:
    for executor in run.executors:
        with run.using(executor):
            run.first_run(executor)
            if run.executable(executor).has_parts:
                run.pass_on(run.export_parts(executor))


def reload(run: LoaderRun) -> None:
    for executor in run.loadable:
        parts = run.passed_on(executor)
        if parts is None:
            continue
        with run.using(executor):
            run.record("from_parts", run.run_loaded(partial(run.ir.load_parts, parts)))


def judge(evidence: Evidence) -> Iterator[Finding]:
    yield from evidence.repeats(
        "params", "load", "differs", evidence.loader.facts("from_parts"),
        "library, graph JSON and parameters, saved as three files and loaded in a fresh process "
        "(%s executor)",
    )


CHECK = Check(
    id="params",
    rule="Library, graph JSON and the bytes of `save_param_dict`, saved as three files and loaded in another "
    "process, give the same outputs bit by bit.",
    why="Constants and loaders that only the artifact of the executor factory holds.",
    where=f"{CHOSEN}, Relay",
    observe=observe,
    reload=reload,
    judge=judge,
    made_on=CHOSEN,
    owns=True,
    at_smoke=("large_weight",),
)
