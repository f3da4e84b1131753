"""Of an input no more is read than there is, and no longer than it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from ..ir import dlpack
from .base import CHOSEN, Check
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun

#: Where there is nothing to be read, and what puts inputs there.
PLACES = {"behind": dlpack.at_end, "before": dlpack.at_beginning}


def reload(run: LoaderRun) -> None:
    if not all(map(dlpack.can_place, run.inputs[0].values())):
        run.not_checked("inputs of bool and bfloat16 are not placed beside what can't be read")
        return
    for executor in run.loadable:
        with run.using(executor):
            executable = run.load(executor)
            if not executable.takes_views:
                run.not_checked("the %s executor copies its inputs: the target reads the copies" % executor)
                continue
            run.stage("run")
            for side, place in PLACES.items():
                outputs = executable.hold(run.inputs[0], place)[1]
                run.record("fenced", {"side": side, "arrays": executable.arrays(outputs)})
                # Whose address was kept is read in the next run.
                dlpack.take_away()


def judge(evidence: Evidence) -> Iterator[Finding]:
    for executor, value in evidence.loader.facts("fenced"):
        yield from evidence.repeats(
            "overread", "run", "differs", [(executor, value["arrays"])],
            "a run whose inputs have nothing of theirs %s them (%%s executor)" % value["side"],
        )


CHECK = Check(
    id="overread",
    rule="Inputs behind which, or before which, no memory can be read give the same bit by bit, while those "
    "of the run before can be read no more.",
    why="Whole vectors loaded at the end of a row, copies of rounded sizes, padding that is read before it "
    "is thrown away, addresses kept of what may be freed.",
    where="chosen graphs, and each operator with sixteen of everything or with padding, that the target "
    "runs whole and whose inputs are neither bool nor bfloat16",
    how="with no memory to be read behind, or before, its inputs, nor where those of the run before were",
    reload=reload,
    judge=judge,
    made=CHOSEN,
    owns=True,
    # TVM's own kernels may load ahead.
    target_alone=True,
)
