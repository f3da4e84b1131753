"""Which checks need what: what a worker or the judge must know of all checks at once."""

from __future__ import annotations

from typing import Iterable

from . import CHECKS

#: The check that the values of a graph are judged by where its regions are neither built nor run.
INLINE_BACK = "inline-back"


def partition_stage(checks: Iterable[str] = ()) -> tuple[str, ...]:
    """Ids of those of the checks that need the partition function alone, and of those that every graph is
    judged by then."""
    needed = {"offload", "regions", INLINE_BACK, *checks}
    return tuple(c.id for c in CHECKS if c.partition_stage and c.id in needed)


def loaded(checks: Iterable[str], host_runs_some: bool) -> list[str]:
    """Those of the checks that the loader makes. host_runs_some: whether TVM runs a part of the graph itself,
    beside which some can't be made."""
    left_out = {c.id for c in CHECKS if c.own_loader or (host_runs_some and c.target_alone)}
    return [check for check in checks if check not in left_out]


def loaded_of_llvm(checks: Iterable[str]) -> list[str]:
    """Those of the checks that the loader makes of LLVM's own artifact: where what they find may be TVM's own
    doing, also those that are made where the target runs everything."""
    left_out = {c.id for c in CHECKS if c.own_loader or (c.target_alone and not c.tvm_too)}
    return [check for check in checks if check not in left_out]


#: Ids of the checks that partition a graph once more, or another one: their failure causes no other one.
REPARTITIONING = frozenset(c.id for c in CHECKS if c.repartitions)
#: Ids of the checks that own what happens in their turn.
OWNERS = frozenset(c.id for c in CHECKS if c.owns)
#: Ids of those of them that the loader makes.
RELOADS = frozenset(c.id for c in CHECKS if c.owns and c.reload is not None)
#: Position of a check among the others, for findings: causes come first.
RANK = {c.id: position for position, c in enumerate(CHECKS)}
