"""Sentences of a report on the graphs and checks that a level leaves to a higher one."""

from __future__ import annotations

from ..checks import CHECKS, selection
from ..config import plan
from ..config.levels import NUMEROUS, Level

#: The work left out in sessions that build and run artifacts.
_BUILDS = "all executors but one for each graph, LLVM's build of graphs that pass"


def left_to_levels(level: Level, partition_only: bool) -> list[str]:
    """Returns sentences for the list "not checked". partition_only: true if only the partition
    stage is checked, which has fewer checks and builds nothing."""
    notes = []
    if level.one_executor == NUMEROUS and not partition_only:
        notes.append(
            "for random graphs and structures of which only the numbers are judged: all executors but one, "
            "and LLVM's build of graphs that pass: left to level full"
        )
    if not level.onnx:
        builds = "" if partition_only else f", {_BUILDS}"
        made = set(plan.effort(level, {plan.ALL_CHECKS}).checks)
        checks = [c for c in CHECKS if c.partition_stage or not partition_only]
        made |= set(selection.partition_stage()) if partition_only else set()
        left = ", ".join(c.id for c in checks if c.id not in made)
        notes += [
            "ONNX's node tests, most systematic cases, most near misses of patterns, most random graphs and "
            f"batches{builds}: left to level standard",
            f"the checks {left}, except for some on a few structures ({', '.join(plan.AT_SMOKE)}): left to "
            "level standard",
        ]
    return notes
