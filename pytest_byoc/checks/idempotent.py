"""Checks that partitioning a partitioned module changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun


def observe(run: TargetRun) -> None:
    module = run.ir.modules.ready_for_another(run.partitioned())
    run.record("partitioned_again", run.ir.partition_facts(run.partition(module)))
    run.record("same_graph_again", run.ir.partition_facts(run.partition(run.lowered_again())))


def shape(facts: dict[str, Any]) -> tuple[list[Any], int]:
    """Returns the regions with their calls, and the number of calls outside of all regions.

    Names are left out, because TVM's own passes may change them. So are regions that call no
    operator: TVM's AnnotateTarget adds some each time, and the check `regions` reports them.
    """
    regions = [
        (r["compiler"], r["inputs"], r["outputs"], sorted(r["calls"])) for r in facts["regions"] if r["calls"]
    ]
    return sorted(regions), int(facts["host_calls"])


def judge(evidence: Evidence) -> Iterator[Finding]:
    first = [value for _, value in evidence.target.facts("regions")]
    for _, second in evidence.target.facts("same_graph_again"):
        if first and shape(second) != shape(first[0]):
            yield Finding(
                "idempotent", "error", "partition", "state",
                "the same graph, partitioned once more in the same process, gives another module: instead "
                "of %d regions and %d calls outside there are %d and %d, or the regions hold other calls."
                % (
                    len(first[0]["regions"]), first[0]["host_calls"],
                    len(second["regions"]), second["host_calls"],
                ),
            )
    for _, again in evidence.target.facts("partitioned_again"):
        if first and shape(again) != shape(first[0]):
            yield Finding(
                "idempotent", "error", "partition", "changes",
                "partitioning the partitioned module again changes it: instead of %d regions and %d calls "
                "outside there are %d and %d, or the regions hold other calls."
                % (
                    len(first[0]["regions"]), first[0]["host_calls"],
                    len(again["regions"]), again["host_calls"],
                ),
            )


CHECK = Check(
    id="idempotent",
    rule="The partitioned module, partitioned again, has the same operators in the same regions; so has the "
    "graph, partitioned once more in the same process.",
    why="Passes that rewrite regions which are partitioned already; state kept between two calls.",
    observe=observe,
    judge=judge,
    made_on=CHOSEN,
    owns=True,
    partition_stage=True,
)
