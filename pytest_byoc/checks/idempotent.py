"""Partitioning a partitioned module changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun


def observe(run: TargetRun) -> None:
    module = run.ir.modules.ready_for_another(run.partitioned())
    run.record("partitioned_again", run.ir.partition_facts(run.partition(module)))
    run.record("partitioned_anew", run.ir.partition_facts(run.partition(run.lowered_again())))


def shape(facts: dict[str, Any]) -> tuple[list[Any], int]:
    """What is in which region, and how much in none. Names are TVM's own passes' to change; regions that call
    no operator, of which TVM's AnnotateTarget makes more each time, are told by the check `regions`."""
    regions = [
        (r["compiler"], r["inputs"], r["outputs"], sorted(r["calls"])) for r in facts["regions"] if r["calls"]
    ]
    return sorted(regions), int(facts["host_calls"])


def judge(evidence: Evidence) -> Iterator[Finding]:
    first = [value for _, value in evidence.target.facts("regions")]
    for _, anew in evidence.target.facts("partitioned_anew"):
        if first and shape(anew) != shape(first[0]):
            yield Finding(
                "idempotent", "error", "partition", "state",
                "the same graph, partitioned once more in the same process, becomes another module: %d "
                "regions and %d calls outside become %d and %d, or they hold something else."
                % (
                    len(first[0]["regions"]), first[0]["host_calls"],
                    len(anew["regions"]), anew["host_calls"],
                ),
            )
    for _, again in evidence.target.facts("partitioned_again"):
        if first and shape(again) != shape(first[0]):
            yield Finding(
                "idempotent", "error", "partition", "changes",
                "partitioning the partitioned module again changes it: %d regions and %d calls outside "
                "become %d and %d, or hold something else."
                % (
                    len(first[0]["regions"]), first[0]["host_calls"],
                    len(again["regions"]), again["host_calls"],
                ),
            )


CHECK = Check(
    id="idempotent",
    rule="The partitioned module, partitioned again, has the same operators in the same regions; so has the "
    "graph, partitioned once more in the same process.",
    why="Passes that run over what is partitioned already, state kept between two calls.",
    observe=observe,
    judge=judge,
    made=CHOSEN,
    owns=True,
    partition_stage=True,
)
