"""The levels of `--byoc-level`.

They differ in the number of graphs and in the checks made on them. Failures are judged in the same
way at every level.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Values of `Level.one_executor`: all graphs, the numerous ones, or none.
ALL, NUMEROUS, NONE = "all", "numerous", "none"


@dataclass(frozen=True)
class Level:
    """A level: the numbers and kinds of graphs. (`config/plan.py` determines the checks of each
    level.)

    all_cases: whether every systematic case is examined, or only the cases that cover each dtype
    and each class of each parameter. side_by_side: whether several graphs are examined in one
    module, where the module can decide about each. max_examples: random graphs per operator. ways:
    number of ways per pattern (None: every way). near_misses: number of near misses per pattern,
    except those of `operand_forms`: other ways to broadcast an operand, and other permutations.
    batches: number of larger batches for which a random graph is examined again. openings: number
    of openings that the check `dynamic` tries of a graph with all checks. equivalents: number of changes
    that the check `equivalent` tries of such a graph. onnx: whether ONNX's node
    tests run.

    one_executor: the graphs that are first built for one executor only, selected by the graph's
    digest: ALL, NUMEROUS (random graphs, and structures at first) or NONE. The nodes left to TVM
    are then compiled without LLVM's optimisations (Relax) or without SimplifyExpr and similar
    passes (Relay). Only a failing graph is built for every executor and by LLVM; where the target
    is right, an error of TVM's own stays unnoticed."""

    name: str
    all_cases: bool
    side_by_side: bool
    max_examples: int
    ways: int | None
    near_misses: int
    operand_forms: int
    batches: int
    openings: int
    equivalents: int
    onnx: bool
    one_executor: str
    #: Whether runs are measured beside LLVM's.
    measures: bool = False

    def tries_one_executor(self, numerous: bool) -> bool:
        """Returns whether a graph is first examined for one executor only. numerous: whether it is
        a random graph, or a structure that is examined again with all checks."""
        return self.one_executor == ALL or (self.one_executor == NUMEROUS and numerous)


LEVELS = {
    level.name: level
    for level in (
        Level(
            "smoke", all_cases=False, side_by_side=True, max_examples=1, ways=1, near_misses=1,
            operand_forms=12, batches=1, openings=1, equivalents=1,
            onnx=False, one_executor=ALL,
        ),
        Level(
            "standard", all_cases=True, side_by_side=True, max_examples=8, ways=None, near_misses=10,
            operand_forms=60, batches=2, openings=3, equivalents=2, onnx=True, one_executor=NUMEROUS,
        ),
        Level(
            "full", all_cases=True, side_by_side=False, max_examples=60, ways=None, near_misses=40,
            operand_forms=400, batches=2, openings=6, equivalents=8, onnx=True, one_executor=NONE,
            measures=True,
        ),
    )
}
STANDARD = "standard"
