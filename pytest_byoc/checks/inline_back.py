"""What the partition function made of the graph still computes the graph, without the vendor's code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun

#: As the reference is built.
OPT_LEVEL = 1


def observe(run: TargetRun) -> None:
    run.stage("inline-back")
    executable = run.inlined(run.partitioned(), run.executors[0], OPT_LEVEL)
    if run.nothing_offloaded:
        # All of it is TVM's: it is built and run as the reference is, and may fail as that does.
        run.stage("run")
    for which, inputs in enumerate(run.inputs):
        run.record("inlined", {"set": which, "arrays": executable.run(inputs)[0]})


def judge(evidence: Evidence) -> Iterator[Finding]:
    what = "when the regions are put back and built by LLVM"
    if evidence.nothing_offloaded:
        what = "when the partitioned module, of which nothing is offloaded, is built by LLVM"
    for _, value in evidence.target.facts("inlined"):
        found = evidence.compare(
            "inline-back", "wrong-value", value["set"], value["arrays"],
            what + ": partitioning has changed what is computed, there",
        )
        for finding in found:
            # A cause of what else is wrong.
            yield replace(finding, stage="partition")


CHECK = Check(
    id="inline-back",
    rule="The partitioned module, composites and regions inlined, built by LLVM, is within the bound.",
    why="Patterns that match something else, leaked intermediates, rewrites beside the regions; needs the "
    "partition function alone.",
    where="chosen graphs, and every graph of which nothing is offloaded though partitioning has changed it",
    observe=observe,
    judge=judge,
    made=CHOSEN,
    owns=True,
    partition_stage=True,
)
