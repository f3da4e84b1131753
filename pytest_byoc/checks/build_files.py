"""Checks that the artifact needs no file that the target wrote elsewhere while it was built."""

from __future__ import annotations

import ctypes
from functools import partial
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import WITHOUT_FILES, Check, of_death, of_raised
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..core.job_report import JobReport
    from ..runs import LoaderRun, TargetRun

#: The most paths in a message.
_NAMED = 3


def observe(run: TargetRun) -> None:
    """Records the files outside the artifact's folder that were written until it was exported."""
    run.record("written", run.files_written())


def written(report: JobReport) -> list[str]:
    """Returns the files that a target worker's report names."""
    return [path for _, paths in report.facts("written") for path in paths]


def reload(run: LoaderRun) -> None:
    """Loads and runs each artifact in a process from which those files are hidden."""
    try:
        hide_file = ctypes.CDLL(None).hide_file
    except AttributeError:
        run.not_checked("the library that hides files from a process can't be compiled or loaded here")
        return
    for path in run.hidden:
        if not hide_file(path.encode()):
            run.not_checked("the target writes more files outside its artifact than can be hidden")
            return
    for executor, path in run.artifacts.items():
        with run.using(executor):
            run.record("without_files", run.run_loaded(partial(run.ir.load, path, executor)))


def judge(evidence: Evidence) -> Iterator[Finding]:
    report = evidence.without_files
    if evidence.loader.failed or report.end is None:
        return
    files = written(evidence.target)
    names = ", ".join(files[:_NAMED]) + (" …" if len(files) > _NAMED else "")
    without = "without %s (written by the build)" % names
    yield from evidence.repeats(
        "build-files", "load", "differs", report.facts("without_files"),
        "a run of the artifact %s (%%s executor)" % without.replace("%", "%%"),
    )
    yield from of_raised("build-files", report, without + ", the stage")
    yield from of_death(
        "build-files", report, without.replace("{", "{{").replace("}", "}}")
        + ", the artifact ends its process in the stage {stage} ({how})",
    )


CHECK = Check(
    id="build-files",
    rule="The artifact gives the same outputs bit by bit where every file is missing that the target wrote "
    "elsewhere while it partitioned, built and exported.",
    why="Weights, kernels and tables that stay on the machine of the build.",
    where="every graph, if the target writes files outside the artifact and its `TMPDIR`",
    observe=observe,
    reload=reload,
    judge=judge,
    owns=True,
    needs=(WITHOUT_FILES,),
    by_machine=True,
)
