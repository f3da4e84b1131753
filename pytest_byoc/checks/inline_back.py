"""Checks that the partitioned module computes the graph when LLVM builds it, regions inlined."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun

#: The opt_level of the reference build.
OPT_LEVEL = 1


def observe(run: TargetRun) -> None:
    run.stage("inline-back")
    executable = run.inlined(run.partitioned(), run.executors[0], OPT_LEVEL)
    if run.nothing_offloaded:
        # TVM runs all of it, as it runs the reference, and may fail in the same stage as that does.
        run.stage("run")
    for which, inputs in enumerate(run.inputs):
        run.record("inlined", {"set": which, "arrays": executable.run(inputs)[0]})


def judge(evidence: Evidence) -> Iterator[Finding]:
    what = "when the regions are inlined and built by LLVM"
    if evidence.nothing_offloaded:
        what = "when the partitioned module, of which nothing is offloaded, is built by LLVM"
    for _, value in evidence.target.facts("inlined"):
        findings = evidence.compare(
            "inline-back", "wrong-value", value["set"], value["arrays"],
            what + " (so partitioning has changed the computation)", by_llvm=True,
        )
        for finding in findings:
            # Partitioning is the cause of other wrong values, so its finding comes before those.
            yield replace(finding, stage="partition")


CHECK = Check(
    id="inline-back",
    rule="The outputs of the partitioned module, with composites and regions inlined and built by LLVM, are "
    "within their bound.",
    why="Patterns that match other computations than intended, leaked intermediates, wrong rewrites outside "
    "of the regions. The check needs only the partition function.",
    where=f"{CHOSEN}, and every graph of which nothing is offloaded though partitioning has changed it",
    observe=observe,
    judge=judge,
    made_on=CHOSEN,
    owns=True,
    partition_stage=True,
    basic=True,
    reproduced=True,
)
