"""Checks that the partitioned module survives being saved as JSON and loaded again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import CHOSEN, Check
from .evidence_interface import Evidence
from .idempotent import shape

if TYPE_CHECKING:
    from ..runs import TargetRun


def observe(run: TargetRun) -> None:
    run.stage("partition")
    loaded = run.unless_tvm_fails(
        run.ir.modules.through_json, run.partitioned(), run.lowered_again,
        "where modules are loaded from JSON",
    )
    if loaded is not None:
        module, equal = loaded
        run.record("from_json", {"equal": equal, "facts": run.ir.partition_facts(module)})


def judge(evidence: Evidence) -> Iterator[Finding]:
    first = [value for _, value in evidence.target.facts("regions")]
    for _, value in evidence.target.facts("from_json"):
        if not value["equal"] or (first and shape(value["facts"]) != shape(first[0])):
            yield Finding(
                "ir-json", "error", "partition", "differs",
                "the partitioned module, saved by tvm.ir.save_json and loaded by load_json, is not "
                "structurally equal to the module that was saved, or has other regions.",
            )


CHECK = Check(
    id="ir-json",
    rule="The partitioned module, saved by `tvm.ir.save_json` and loaded by `load_json`, is structurally "
    "equal to the one that was saved, with the same regions.",
    why="Attributes that cannot be saved as JSON.",
    observe=observe,
    judge=judge,
    made_on=CHOSEN,
    owns=True,
    partition_stage=True,
)
