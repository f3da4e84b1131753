"""What the partition function made of the graph still computes the graph, without the vendor's code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Iterator

from .base import CHOSEN, Check, Finding

if TYPE_CHECKING:
    from ..evidence import Evidence
    from ..worker.runs import TargetRun

#: As the reference is built.
_OPT_LEVEL = 1


def observe(run: TargetRun) -> None:
    partitioned = run.partitioned()
    try:
        module = run.ir.modules.inline_back(partitioned)
    except Exception as e:
        run.not_checked("TVM cannot inline the regions (%s)" % type(e).__name__)
        return
    if run.ir.partition_facts(module)["regions"]:
        run.not_checked("regions are left where they are called in another way than from main")
        return
    run.stage("inline-back")
    try:
        executable = run.ir.build(module, run.executors[0], _OPT_LEVEL)
    except Exception as e:
        # A layout, say, that is the target's alone.
        run.not_checked("TVM's LLVM does not build what the regions hold (%s)" % type(e).__name__)
        return
    for which, inputs in enumerate(run.inputs):
        run.record("inlined", {"set": which, "arrays": executable.run(inputs)[0]})


def judge(evidence: Evidence) -> Iterator[Finding]:
    for _, value in evidence.target.facts("inlined"):
        found = evidence.compare(
            "inline-back", "wrong-value", value["set"], value["arrays"],
            "when the regions are put back and built by LLVM: partitioning has changed what is computed, "
            "there",
        )
        for finding in found:
            # A cause of what else is wrong.
            yield replace(finding, stage="partition")


CHECK = Check(
    id="inline-back",
    rule="The partitioned module, composites and regions inlined, built by LLVM, is within the bound.",
    why="Patterns that match something else, leaked intermediates; needs the partition function alone.",
    observe=observe,
    judge=judge,
    made=CHOSEN,
    owns=True,
)
