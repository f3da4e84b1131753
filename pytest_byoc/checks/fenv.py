"""A run leaves the thread's floating-point environment as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from ..runs import fenv
from .base import Check
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun, TargetRun

#: Where it is looked at, and after what.
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
                    "%s, the thread's arithmetic is another: %s." % (where, "; ".join(changed)),
                    {"changed": changed},
                )


CHECK = Check(
    id="fenv",
    rule="After a run, compiled here or loaded in a fresh process, the thread rounds as before, and neither "
    "operands nor results that are subnormal become zero.",
    why="Flushing left switched on, libraries linked with `-ffast-math`, which switch it on when they are "
    "loaded.",
    observe=observe,
    reload=reload,
    judge=judge,
)
