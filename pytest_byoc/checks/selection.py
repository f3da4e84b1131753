"""Which checks are made on which graphs: decided here, on the host, and nowhere else."""

from __future__ import annotations

from typing import Iterable, List, Tuple

from . import CHECKS
from .base import EVERY

#: Structures on which all checks are made at smoke too: between them they show what each of the dear checks
#: is there for (two regions of one chain, operands out of order, many buffers, kernels that take a while).
AT_SMOKE = ("diamond", "inputs_reversed", "long_chain", "large")


def made(chosen: bool, level: str = "standard", case: str = "") -> Tuple[str, ...]:
    """Ids of the checks made on a graph. chosen: whether it is one of the few that all are made on: the
    simplest case of each operator, each structure, the first match of each pattern, what is replayed.
    level: at smoke the dear ones are made on the structures of AT_SMOKE alone, at full on every graph.
    case: its id."""
    few = level == "standard" or case in AT_SMOKE
    everything = level == "full" or (chosen and few)
    return tuple(c.id for c in CHECKS if everything or c.made == EVERY)


def again(check: str) -> Tuple[str, ...]:
    """Ids of the checks that a failure of `check` is shrunk with."""
    return tuple(c.id for c in CHECKS if c.made == EVERY or c.id == check)


def beside_host(checks: Iterable[str]) -> List[str]:
    """Those of the checks that can be made where TVM runs a part of the graph itself."""
    alone = {c.id for c in CHECKS if c.target_alone}
    return [check for check in checks if check not in alone]


OWNERS = frozenset(c.id for c in CHECKS if c.owns)
#: Those of them that the loader makes.
RELOADS = frozenset(c.id for c in CHECKS if c.owns and c.reload is not None)
#: Position of a check among the others, for findings: causes come first.
RANK = {c.id: position for position, c in enumerate(CHECKS)}
