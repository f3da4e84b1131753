"""Selects checks by their properties, for the workers and the host."""

from __future__ import annotations

from typing import Iterable

from . import CHECKS

#: The id of the check that judges values where the target's regions are neither built nor run.
INLINE_BACK = "inline-back"


def partition_stage(checks: Iterable[str] = ()) -> tuple[str, ...]:
    """Returns the ids of those of the checks that need only the partition function.

    Three checks are always among them: offload, regions and inline-back.
    """
    needed = {"offload", "regions", INLINE_BACK, *checks}
    return tuple(c.id for c in CHECKS if c.partition_stage and c.id in needed)


def loaded(checks: Iterable[str], host_runs_some: bool) -> list[str]:
    """Returns those of the checks that the usual loader makes.

    host_runs_some: TVM runs a part of the graph itself, which excludes checks with `target_alone`.
    """
    left_out = {c.id for c in CHECKS if c.own_loader or (host_runs_some and c.target_alone)}
    return [check for check in checks if check not in left_out]


def loaded_of_llvm(checks: Iterable[str]) -> list[str]:
    """Returns those of the checks that a loader makes on LLVM's own artifact.

    Checks with `target_alone` are excluded, unless TVM itself may cause their findings (`tvm_too`).
    """
    left_out = {c.id for c in CHECKS if c.own_loader or (c.target_alone and not c.tvm_too)}
    return [check for check in checks if check not in left_out]


#: Ids of the checks that partition a graph again, or another one; their failure causes no other.
REPARTITIONING = frozenset(c.id for c in CHECKS if c.repartitions)
#: Ids of the checks to which exceptions and deaths are assigned that happen while they run.
OWNERS = frozenset(c.id for c in CHECKS if c.owns)
#: Ids of the checks that a loader makes.
LOADED = frozenset(c.id for c in CHECKS if c.reload is not None)
#: Ids of the checks that a runner can't make: those of a loader, and those of the memory around a run.
NOT_BY_RUNNER = (LOADED - {"roundtrip"}) | {"inputs-unmodified", "outputs-written", "fenv", "surroundings"}
#: Ids of those OWNERS that the loader makes.
RELOADS = frozenset(c.id for c in CHECKS if c.owns and c.reload is not None)
#: The position of each check by id; of several findings the first in this order names the failure.
RANK = {c.id: position for position, c in enumerate(CHECKS)}
