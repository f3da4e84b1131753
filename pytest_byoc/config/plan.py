"""The effort for each graph by the level of the session and the kinds of the graph, and nothing else."""

from __future__ import annotations

from collections.abc import Set

from ..checks import CHECKS
from ..checks.base import CHOSEN, EVERY, FEW
from ..generation.structures import EXHAUSTIVE, NUMERIC, STRUCTURES
from .effort import EVERY as EVERY_EXECUTOR
from .effort import ONE, Effort
from .levels import LEVELS, STANDARD, Level

#: Ids of the checks that not every machine can make.
BY_MACHINE = frozenset(c.id for c in CHECKS if c.by_machine)
#: Not a check: how long a run takes, of the target and of LLVM.
SPEED = "speed"

#: Kinds of graphs. ALL_CHECKS: one of the few graphs on which every check is made: the simplest case of
#: each operator, the structures of `thorough`, the first match of each pattern, saved graphs. SAVED: a
#: graph of the corpus, which may have failed any check. NUMEROUS: a random graph, or a structure that is
#: examined again with all checks. Further kinds are the names of structures, and those of `Case.kinds`.
ALL_CHECKS, SAVED, NUMEROUS = "all checks", "saved", "numerous"
#: Of a graph of no particular kind.
PLAIN: frozenset[str] = frozenset()

#: Structures on which all checks are made at smoke too. Between them they show what each of the expensive
#: checks is there for: two regions of one chain, operands out of order, many buffers, each operator, kernels
#: that take a while, by elements and otherwise, constants that fill the artifact. Where ids are given, only
#: those of the expensive checks are made.
AT_SMOKE: dict[str, tuple[str, ...]] = {
    "diamond": (),
    "inputs_reversed": (),
    "long_chain": (),
    "each_once": ("bystanders", "threads", "memory", "overrun", "overread"),
    "large": ("threads", "overrun"),
    "large_weight": ("size", "archive", "params", "unbound", "truncated", "missing-library"),
    "forms_that_take_a_while": ("threads", "overread"),
}
#: Checks that are made at standard on cases of a kind (`Case.kinds`): threads seldom meet in short runs.
ON_KINDS = {
    "large tensors": ("threads", "opt-levels"),
    "one element": ("overrun",),
    "aligned": ("overread",),
    "padded": ("overread",),
}
#: What ids of the cases that `thorough` is about start with.
THOROUGH = "thorough"


def thorough_case(structure: str) -> str:
    """The id of the case in which all checks are made on a structure."""
    return f"{THOROUGH}[{structure}]"


def structures(level: str) -> tuple[str, ...]:
    """The structures of a level."""
    return tuple(s for s in STRUCTURES if level != "smoke" or s not in EXHAUSTIVE)


def thorough(level: str) -> tuple[str, ...]:
    """The structures that are examined once more, with all checks.

    They were examined before in modules of several, so that what shows without the expensive checks shows
    soon. At full the expensive checks are made the first time."""
    if level == "full":
        return ()
    return tuple(AT_SMOKE) if level == "smoke" else tuple(s for s in STRUCTURES if s not in NUMERIC)


def effort(level: Level, kinds: Set[str] = PLAIN, alone: bool = False) -> Effort:
    """The effort for a graph.

    kinds: of the graph. alone: whether it is an operator alone. At smoke the expensive checks are made on the
    structures of AT_SMOKE alone; at full on every graph, but for the checks that compile a graph several
    times, and the speed of graphs with all checks is measured."""
    if SAVED in kinds:
        level, alone = LEVELS[STANDARD], False
    one = level.is_quick(NUMEROUS in kinds) and SAVED not in kinds
    checks = _checks(level.name, kinds, alone)
    return Effort(checks, ONE if one else EVERY_EXECUTOR, with_llvm=not one)


def _checks(level: str, kinds: Set[str], alone: bool) -> tuple[str, ...]:
    kinds_made = {EVERY}
    in_full = ALL_CHECKS in kinds
    structure = next((s for s in AT_SMOKE if s in kinds), "")
    selected = in_full and (level == "standard" or (level == "smoke" and bool(structure)))
    if level == "full" or selected:
        kinds_made.add(CHOSEN)
    if (in_full and level == "full") or (selected and not alone):
        kinds_made.add(FEW)
    only = AT_SMOKE[structure] if level == "smoke" and structure else ()
    more = {i for kind in kinds & ON_KINDS.keys() for i in ON_KINDS[kind]} if level == "standard" else set()
    return (
        *(
            c.id for c in CHECKS
            if c.id in more or (c.made in kinds_made and (c.made == EVERY or not only or c.id in only))
        ),
        *((SPEED,) if in_full and level == "full" else ()),
    )


def every_graph() -> Effort:
    """The effort in full with the checks that are made on every graph."""
    return Effort(tuple(c.id for c in CHECKS if c.made == EVERY))


def again(check: str) -> Effort:
    """The effort with which a failure of a check is shrunk."""
    return Effort(tuple(c.id for c in CHECKS if c.made == EVERY or c.id == check))
