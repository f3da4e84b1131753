"""Checks that no memory before or after an input is read, and no input after its run has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from ..ir import dlpack
from .base import CHOSEN, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import LoaderRun

#: The side of an input on which no memory can be read, and the function that places inputs so.
PLACES = {"behind": dlpack.at_end, "before": dlpack.at_beginning}


def reload(run: LoaderRun) -> None:
    if not all(map(dlpack.can_place, run.inputs[0].values())):
        run.not_checked("inputs of bool and bfloat16 are not placed beside memory that can't be read")
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
                # A target that has kept an address reads it in the next run.
                dlpack.take_away()


def judge(evidence: Evidence) -> Iterator[Finding]:
    for executor, value in evidence.loader.facts("fenced"):
        yield from evidence.repeats(
            "overread", "run", "differs", [(executor, value["arrays"])],
            "a run with no readable memory %s the inputs (%%s executor)" % value["side"],
        )


CHECK = Check(
    id="overread",
    rule="With no readable memory behind the inputs, or before them, and none where the inputs of the run "
    "before were, the outputs equal those of the first run bit by bit.",
    why="Whole vectors loaded at the end of a row, copies of rounded sizes, padding that is read before it "
    "is thrown away, addresses of inputs that are kept after the run.",
    where=f"{CHOSEN}, and each operator's cases with aligned extents or with padding, if the target runs the "
    "whole graph and its inputs are neither bool nor bfloat16",
    how="with no readable memory behind or before its inputs, nor where those of the run before were",
    reload=reload,
    judge=judge,
    made_on=CHOSEN,
    owns=True,
    # TVM's own kernels may load elements behind the end.
    target_alone=True,
    at_smoke=("each_once", "forms_that_take_a_while"),
    on_kinds=("aligned", "padded"),
)
