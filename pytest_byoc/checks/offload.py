"""Records the regions of the partitioned module, and checks that their symbols are unique."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator

from ..core.finding import Finding
from .base import Check
from .evidence_interface import Evidence

if TYPE_CHECKING:
    from ..runs import TargetRun


def observe(run: TargetRun) -> None:
    run.record("regions", run.regions())


def judge(evidence: Evidence) -> Iterator[Finding]:
    """Yields a finding for each symbol of several regions: they would all run the same code."""
    symbols = [region["symbol"] for region in evidence.regions]
    for symbol in sorted({s for s in symbols if symbols.count(s) > 1}):
        yield Finding(
            "offload",
            "error",
            "partition",
            "symbol-twice",
            "%d regions of the partitioned module have the symbol %s."
            % (symbols.count(symbol), symbol),
        )


CHECK = Check(
    id="offload",
    rule="Only nodes whose calls are in a region of the partitioned module count as offloaded; the symbols "
    "of regions are unique.",
    why="A suite that only compares results passes when nothing is offloaded.",
    observe=observe,
    judge=judge,
    partition_stage=True,
    basic=True,
    reproduced=True,
)
