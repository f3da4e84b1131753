"""Checks that each region computes something, and that the partitioned module is well-formed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun

_WORDS = {
    "empty": "calls no operator",
    "identity": "returns an input as it is",
    "duplicate": "returns one value twice",
}


def observe(run: TargetRun) -> None:
    run.record("ill_formed", run.ir.modules.ill_formed(run.partitioned()))
    run.record("trivial_regions", list(run.target.trivial_regions))


def judge(evidence: Evidence) -> Iterator[Finding]:
    for _, where in evidence.target.facts("ill_formed"):
        if where:
            yield Finding(
                "regions", "error", "partition", "ill-formed",
                "the partitioned module is not well-formed (%s): a value is used before it is bound, or "
                "bound twice. A region that depends on itself through values outside causes this." % where,
            )
    declared = [odd for _, kinds in evidence.target.facts("trivial_regions") for odd in kinds]
    for region in evidence.regions:
        for odd in region.get("odd", ()):
            if odd not in declared:
                yield Finding(
                    "regions", "error", "partition", odd,
                    "region %s %s. A codegen that supports such regions declares "
                    "trivial_regions = [\"%s\"]." % (region["symbol"], _WORDS[odd], odd),
                )


CHECK = Check(
    id="regions",
    rule="The partitioned module is well-formed; each region calls an operator, and none returns an input "
    "as it is or one value twice.",
    why="Illegal merges; trivial regions, against which each runtime would have to defend itself.",
    observe=observe,
    judge=judge,
    partition_stage=True,
)
