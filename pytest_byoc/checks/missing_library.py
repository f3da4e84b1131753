"""An artifact whose libraries are missing says so."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import BARE, CHOSEN, Check, of_death
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun


def reload(run: LoaderRun) -> None:
    """An exception is what is hoped for; the same outputs show that nothing is missing."""
    for executor, path in run.artifacts.items():
        with run.using(executor):
            try:
                outputs = run.run_loaded(partial(run.ir.load, path, executor))
            except Exception:
                continue
            run.record("without_libraries", outputs)


def judge(evidence: Evidence) -> Iterator[Finding]:
    yield from evidence.repeats(
        "missing-library", "run", "unnoticed", evidence.bare.facts("without_libraries"),
        "a run without the target's libraries, which gives no error (%s executor)",
    )
    yield from of_death(
        "missing-library", evidence.bare,
        "without the target's libraries the process ends in the stage {stage} ({how}), where an error is "
        "expected. Undefined functions are looked for when they are first called, and the process ends if "
        "there are none: link the artifact with its libraries, or with -Wl,-z,now.",
    )


CHECK = Check(
    id="missing-library",
    rule="Loaded where the target's libraries are missing, the artifact gives an error, or computes the "
    "same as with them; the process lives on.",
    why="Undefined functions that end the process when they are called.",
    where="chosen graphs, targets that declare libraries",
    reload=reload,
    judge=judge,
    made=CHOSEN,
    owns=True,
    needs=(BARE,),
)
