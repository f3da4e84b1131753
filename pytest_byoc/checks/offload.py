"""Which operators the partitioned module really hands to the target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import Check
from .evidence import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun


def observe(run: TargetRun) -> None:
    run.record("regions", run.regions())


def judge(evidence: Evidence) -> Iterator[Finding]:
    """Two regions of one symbol would run the same code."""
    symbols = [region["symbol"] for region in evidence.regions]
    for symbol in sorted({s for s in symbols if symbols.count(s) > 1}):
        yield Finding(
            "offload",
            "error",
            "partition",
            "symbol-twice",
            "%d regions of the partitioned module are called %s."
            % (symbols.count(symbol), symbol),
        )


CHECK = Check(
    id="offload",
    rule="What counts as offloaded is in a region of the partitioned module; symbols are unique.",
    why="A suite that compares results alone passes when nothing is offloaded.",
    observe=observe,
    judge=judge,
    partition_stage=True,
)
