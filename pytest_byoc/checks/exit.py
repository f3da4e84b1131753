"""A process that has used the artifact ends as it should."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun


def reload(run: LoaderRun) -> None:
    run.leaves_normally = True


def judge(evidence: Evidence) -> Iterable[Finding]:
    """A process that dies or hangs at its end is seen like any other, in the stage `exit`."""
    return ()


CHECK = Check(
    id="exit",
    rule="A process that has loaded and run the artifact ends with status 0.",
    why="Handles destroyed too late, handlers of an unloaded library.",
    reload=reload,
    judge=judge,
    made=CHOSEN,
    owns=True,
    records=False,
)
