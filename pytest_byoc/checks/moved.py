"""Checks that a copy of the artifact gives the same outputs in another working directory."""

from __future__ import annotations

import os
import shutil
from functools import partial
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun


def reload(run: LoaderRun) -> None:
    here, folder = os.getcwd(), run.new_folder()
    try:
        os.chdir(folder)
        for executor in run.loadable:
            with run.using(executor):
                shutil.copy(run.artifacts[executor], "moved_%s.so" % executor)
                path = os.path.join(folder, "moved_%s.so" % executor)
                run.record("moved", run.run_loaded(partial(run.ir.load, path, executor)))
    finally:
        os.chdir(here)


def judge(evidence: Evidence) -> Iterator[Finding]:
    yield from evidence.repeats(
        "moved", "load", "differs", evidence.loader.facts("moved"),
        "a copy of the artifact, loaded in another working directory (%s executor)",
    )


CHECK = Check(
    id="moved",
    rule="A copy of the artifact, loaded in another working directory, gives the same outputs bit by bit.",
    why="Artifacts that need files beside them, or paths of the build.",
    how="with a copy of the artifact in another folder",
    reload=reload,
    judge=judge,
    owns=True,
)
