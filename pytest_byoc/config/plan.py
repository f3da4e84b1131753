"""Which checks are made on which graphs, by the level: decided here and nowhere else."""

from __future__ import annotations

from ..checks import CHECKS
from ..checks.base import CHOSEN, EVERY, FEW
from ..generation.structures import EXHAUSTIVE, NUMERIC, STRUCTURES

#: Checks that not every machine can make: by its C library, or by what it has one of.
BY_MACHINE = frozenset(("memory", "overrun", "reproducible"))
#: Not a check: how long a run takes, of the target and of LLVM.
SPEED = "speed"

#: Structures on which all checks are made at smoke too: between them they show what each of the expensive
#: ones is there for (two regions of one chain, operands out of order, many buffers, each operator, kernels
#: that take a while, by elements and otherwise, constants that fill the artifact).
AT_SMOKE = (
    "diamond", "inputs_reversed", "long_chain", "each_once", "large", "large_weight",
    "forms_that_take_a_while",
)
#: At smoke the only ones of the expensive checks on one of them.
ONLY_AT_SMOKE = {
    "each_once": ("bystanders", "threads", "memory", "overrun", "overread"),
    "large": ("threads", "overrun"),
    "forms_that_take_a_while": ("threads", "overread"),
    "large_weight": ("size", "archive", "params", "unbound", "truncated", "missing-library"),
}
#: Made at standard besides, by how the case's id ends: threads and opt-levels on large tensors (in short runs
#: threads seldom meet), overrun on single elements, overread on aligned or padded inputs.
ON_CASES = {
    "-large]": ("threads", "opt-levels"),
    "x1]": ("overrun",),
    "-aligned]": ("overread",),
    "-padding_symmetric]": ("overread",),
    "-padding_asymmetric]": ("overread",),
}
#: What ids of the cases that `thorough` is about start with.
THOROUGH = "thorough"


def thorough_case(structure: str) -> str:
    """The id of the case in which all checks are made on a structure."""
    return "%s[%s]" % (THOROUGH, structure)


def structures(level: str) -> tuple[str, ...]:
    """Structures of a level."""
    return tuple(s for s in STRUCTURES if level != "smoke" or s not in EXHAUSTIVE)


def thorough(level: str) -> tuple[str, ...]:
    """Structures that are examined once more, with all checks. The plain ones come first, many in one module:
    what shows without the expensive checks shows soon. At full those are made the first time."""
    if level == "full":
        return ()
    return AT_SMOKE if level == "smoke" else tuple(s for s in STRUCTURES if s not in NUMERIC)


def made(chosen: bool, level: str = "standard", alone: bool = False, case: str = "") -> tuple[str, ...]:
    """Ids of the checks made on a graph. chosen: whether it is one of the few that all are made on: the
    simplest case of each operator, the structures of `thorough`, the first match of each pattern, what is
    saved. alone: whether it is an operator alone. case: its id.
    level: at smoke the expensive ones are made on the structures of AT_SMOKE alone, at full on every graph,
    but for those that compile a graph several times; and there it is measured how fast chosen graphs are."""
    made_on = {EVERY}
    structure = next((s for s in AT_SMOKE if case == thorough_case(s)), "")
    among = chosen and (level == "standard" or bool(structure))
    if level == "full" or among:
        made_on.add(CHOSEN)
    if (chosen and level == "full") or (among and not alone):
        made_on.add(FEW)
    speed = (SPEED,) if chosen and level == "full" else ()
    only = ONLY_AT_SMOKE.get(structure) if level == "smoke" else None
    more = next((ids for end, ids in ON_CASES.items() if level == "standard" and case.endswith(end)), ())
    return (
        *(
            c.id for c in CHECKS
            if c.id in more or (c.made in made_on and (c.made == EVERY or only is None or c.id in only))
        ),
        *speed,
    )


def again(check: str) -> tuple[str, ...]:
    """Ids of the checks that a failure of `check` is shrunk with."""
    return tuple(c.id for c in CHECKS if c.made == EVERY or c.id == check)
