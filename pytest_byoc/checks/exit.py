"""Checks that a process which has loaded and run the artifact ends normally."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun


def reload(run: LoaderRun) -> None:
    run.leaves_normally = True


def judge(evidence: Evidence) -> Iterable[Finding]:
    """Returns no findings: a death or hang at the end is reported like any other."""
    return ()


CHECK = Check(
    id="exit",
    rule="A process that has loaded and run the artifact ends with status 0.",
    why="Handles that are destroyed too late; exit handlers of a library that has been unloaded.",
    reload=reload,
    judge=judge,
    made_on=CHOSEN,
    owns=True,
    records=False,
    reproduced=True,
)
