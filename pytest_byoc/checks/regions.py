"""Each region computes something, and the partitioned module holds together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import Check
from .evidence import Evidence

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
                "bound twice. A region that depends on itself through values outside looks so." % where,
            )
    declared = [odd for _, found in evidence.target.facts("trivial_regions") for odd in found]
    for region in evidence.regions:
        for odd in region.get("odd", ()):
            if odd not in declared:
                yield Finding(
                    "regions", "error", "partition", odd,
                    "region %s %s. A codegen that is made for such regions declares "
                    "trivial_regions = [\"%s\"]." % (region["symbol"], _WORDS[odd], odd),
                )


CHECK = Check(
    id="regions",
    rule="The partitioned module is well-formed; no region calls no operator, returns an input as it is or "
    "one value twice.",
    why="Illegal merges; regions each runtime has to defend itself against.",
    observe=observe,
    judge=judge,
    partition_stage=True,
)
