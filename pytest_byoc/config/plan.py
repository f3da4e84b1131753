"""Determines the effort for each graph, from the level of the session and the kinds of the graph
only."""

from __future__ import annotations

from collections.abc import Set

from ..checks import CHECKS
from ..checks.base import CHOSEN, EVERY, FEW
from ..checks.dynamic import OPENED as OPENED
from ..checks.equivalent import REWRITTEN as REWRITTEN
from ..generation.structures import EXHAUSTIVE, NUMERIC, STRUCTURES
from .effort import EVERY as EVERY_EXECUTOR
from .effort import ONE, Effort
from .levels import LEVELS, STANDARD, Level

#: Ids of the checks that only some machines can make.
BY_MACHINE = frozenset(c.id for c in CHECKS if c.by_machine)
#: Listed among the checks of an effort, but not a check: measures the duration of a run, for target
#: and LLVM.
SPEED = "speed"

#: Kinds of graphs. ALL_CHECKS: one of the few graphs on which every check is made: the first
#: offloaded case of each operator, the structures of `thorough`, the first match of each pattern,
#: saved graphs. SAVED: a graph of the corpus, which may have failed any check. NUMEROUS: a random
#: graph, or a structure that is examined again with all checks. MEASURED: a graph whose runs are measured,
#: so that TVM's own part has to be built in full. OPENED: a graph whose extents are
#: left open, although few checks are made on it. REWRITTEN: a graph of which others are made that compute
#: the same, although few checks are made on it. Further kinds are the names of
#: structures, and those of `Case.kinds`.
ALL_CHECKS, SAVED, NUMEROUS, MEASURED = "all checks", "saved", "numerous", "measured"
#: The number of openings of a graph that may have failed with any of them.
ALL_OPENINGS = LEVELS["full"].openings
#: The number of changes of a graph that may have failed with any of them.
ALL_EQUIVALENTS = LEVELS["full"].equivalents
#: The kinds of a graph of no particular kind.
PLAIN: frozenset[str] = frozenset()

#: Structures on which every check is made at smoke too: two regions of one chain, operands out of order, many
#: buffers.
_IN_FULL = ("diamond", "inputs_reversed", "long_chain")
#: All structures of level smoke on which more is checked than on every graph; `Check.at_smoke` names the
#: others.
AT_SMOKE = (*_IN_FULL, *(s for s in STRUCTURES if any(s in c.at_smoke for c in CHECKS)))
#: The beginning of the ids of cases in which all checks are made on a structure.
THOROUGH = "thorough"


def thorough_case(structure: str) -> str:
    """Returns the id of the case in which all checks are made on a structure."""
    return f"{THOROUGH}[{structure}]"


def speed_case(name: str) -> str:
    """Returns the id of the case in which an operator or a pattern is measured."""
    return f"{SPEED}[{name}]"


def structures(level: str) -> tuple[str, ...]:
    """Returns the structures of a level."""
    return tuple(s for s in STRUCTURES if level != "smoke" or s not in EXHAUSTIVE)


def thorough(level: str) -> tuple[str, ...]:
    """Returns the structures that are examined a second time, with all checks.

    The first time they share modules with others, so that failures that need no expensive check
    show early. At full the expensive checks are made the first time, and no structure is examined
    twice."""
    if level == "full":
        return ()
    return AT_SMOKE if level == "smoke" else tuple(s for s in STRUCTURES if s not in NUMERIC)


def effort(level: Level, kinds: Set[str] = PLAIN, alone: bool = False) -> Effort:
    """Returns the effort for a graph. At smoke the expensive checks are made only on the structures
    of AT_SMOKE; at full on every graph, except the checks that compile a graph several times. At
    full the speed of graphs with all checks is measured too.

    kinds: the kinds of the graph. alone: whether the graph has one operator."""
    if SAVED in kinds:
        level, alone = LEVELS[STANDARD], False
    one = level.tries_one_executor(NUMEROUS in kinds) and kinds.isdisjoint({SAVED, MEASURED})
    checks = _checks(level.name, kinds, alone)
    openings = ALL_OPENINGS if SAVED in kinds else level.openings if ALL_CHECKS in kinds else 1
    equivalents = ALL_EQUIVALENTS if SAVED in kinds else level.equivalents
    executors = ONE if one else EVERY_EXECUTOR
    return Effort(
        checks, executors, with_llvm=not one, openings=openings, equivalents=equivalents, asks_tvm=not one
    )


def _checks(level: str, kinds: Set[str], alone: bool) -> tuple[str, ...]:
    kinds_made = {EVERY}
    in_full = ALL_CHECKS in kinds
    structure = next((s for s in AT_SMOKE if s in kinds), "")
    selected = in_full and (level == "standard" or (level == "smoke" and bool(structure)))
    if level == "full" or selected:
        kinds_made.add(CHOSEN)
    if (in_full and level == "full") or (selected and not alone):
        kinds_made.add(FEW)
    restricted = level == "smoke" and bool(structure) and structure not in _IN_FULL
    return (
        *(
            c.id for c in CHECKS
            if (level != "smoke" and not kinds.isdisjoint(c.on_kinds))
            or (c.made_on in kinds_made and (c.made_on == EVERY or not restricted or structure in c.at_smoke))
        ),
        *((SPEED,) if MEASURED in kinds or (in_full and LEVELS[level].measures) else ()),
    )


def every_graph(measured: bool = False) -> Effort:
    """Returns the effort in full with the checks that are made on every graph.

    measured: whether its runs are measured too."""
    return Effort((*(c.id for c in CHECKS if c.made_on == EVERY), *((SPEED,) if measured else ())))


def again(check: str) -> Effort:
    """Returns the effort for shrinking a failure of a check: in full, with that check."""
    checks = tuple(c.id for c in CHECKS if c.made_on == EVERY or c.id == check)
    return Effort(checks, openings=ALL_OPENINGS, equivalents=ALL_EQUIVALENTS)
