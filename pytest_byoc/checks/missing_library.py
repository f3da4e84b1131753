"""Checks that an artifact without the target's libraries raises an error, and kills no process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import CHOSEN, WITHOUT_LIBRARIES, Check, of_death
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun


def reload(run: LoaderRun) -> None:
    """Loads and runs each artifact, and records the outputs where no exception is raised.

    An exception is right. So are outputs equal to the first run's: then no library is needed.
    """
    for executor, path in run.artifacts.items():
        with run.using(executor):
            try:
                outputs = run.run_loaded(partial(run.ir.load, path, executor))
            except Exception:
                continue
            run.record("without_libraries", outputs)


def judge(evidence: Evidence) -> Iterator[Finding]:
    yield from evidence.repeats(
        "missing-library", "run", "unnoticed", evidence.without_libraries.facts("without_libraries"),
        "a run without the target's libraries, which raises no error (%s executor)",
    )
    yield from of_death(
        "missing-library", evidence.without_libraries,
        "without the target's libraries the process ends in the stage {stage} ({how}), where an error is "
        "expected. The dynamic linker looks up undefined functions when they are first called, and ends the "
        "process if it finds none: link the artifact with its libraries, or with -Wl,-z,now.",
    )


CHECK = Check(
    id="missing-library",
    rule="Loaded where the target's libraries are missing, the artifact raises an error, or computes the "
    "same as with them; the process survives.",
    why="Undefined functions that end the process when they are called.",
    where=f"{CHOSEN}, targets that declare libraries",
    reload=reload,
    judge=judge,
    made_on=CHOSEN,
    owns=True,
    needs=(WITHOUT_LIBRARIES,),
    at_smoke=("large_weight",),
)
