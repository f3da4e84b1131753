"""Checks that a run leaves the thread's floating-point environment unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from ..runs import fenv
from .base import Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun, TargetRun

#: The reports with such facts, and the process of each in words.
_AFTER = (
    ("target", "in the process that has compiled the graph and run it"),
    ("loader", "in a fresh process that has loaded the artifact and run it"),
)


def observe(run: TargetRun) -> None:
    for executor in run.executors:
        run.first_run(executor)
    run.record("fenv", fenv.changes())


def reload(run: LoaderRun) -> None:
    if run.loadable:
        run.record("fenv", fenv.changes())


def judge(evidence: Evidence) -> Iterator[Finding]:
    for which, where in _AFTER:
        for _, changed in getattr(evidence, which).facts("fenv"):
            if changed:
                yield Finding(
                    "fenv", "wrong-result", "run", "changed",
                    "%s, the thread's floating-point environment has changed: %s."
                    % (where, "; ".join(changed)),
                    {"changed": changed},
                )


CHECK = Check(
    id="fenv",
    rule="After a run, in the process that has compiled the graph and in a fresh process that has loaded the "
    "artifact, the thread rounds as before, and neither subnormal operands nor subnormal results become "
    "zero.",
    why="Flush-to-zero left switched on; libraries linked with `-ffast-math`, which switch it on when they "
    "are loaded.",
    observe=observe,
    reload=reload,
    judge=judge,
)
