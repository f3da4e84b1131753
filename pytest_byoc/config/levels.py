"""How much is examined: `--byoc-level`.

The levels differ in how many graphs there are and which checks are made on them; what fails is judged alike.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The graphs that are examined for one executor at first: all, numerous ones, none.
ALL, NUMEROUS, NONE = "all", "numerous", "none"


@dataclass(frozen=True)
class Level:
    """all_cases: every systematic case, or only the few that hold each dtype and each class of each
    parameter. side_by_side: graphs are examined several in one module, where that can tell. max_examples:
    random graphs per operator. ways: of a pattern (None: every one). near_misses: graphs one step off, per
    pattern. batches: larger ones for which a random graph is examined again. onnx: ONNX's node tests.
    one_executor: graphs (all; or random ones, and structures at first) that are built for one executor,
    each in turn (what TVM computes itself in Relax without LLVM's optimisations, in Relay without
    SimplifyExpr and passes like it), and for all of them and by LLVM only if they fail; that TVM is wrong
    is not found out where the target is right. Which checks are made at which level is decided in
    `config/plan.py`."""

    name: str
    all_cases: bool
    side_by_side: bool
    max_examples: int
    ways: int | None
    near_misses: int
    batches: int
    onnx: bool
    one_executor: str

    def is_quick(self, numerous: bool) -> bool:
        """Whether a graph is examined for one executor at first. numerous: whether it is a random graph, or a
        structure that is examined again with all checks."""
        return self.one_executor == ALL or (self.one_executor == NUMEROUS and numerous)


LEVELS = {
    level.name: level
    for level in (
        Level(
            "smoke", all_cases=False, side_by_side=True, max_examples=1, ways=1, near_misses=1, batches=1,
            onnx=False, one_executor=ALL,
        ),
        Level(
            "standard", all_cases=True, side_by_side=True, max_examples=8, ways=None, near_misses=10,
            batches=2, onnx=True, one_executor=NUMEROUS,
        ),
        Level(
            "full", all_cases=True, side_by_side=False, max_examples=60, ways=None, near_misses=40,
            batches=2, onnx=True, one_executor=NONE,
        ),
    )
}
STANDARD = "standard"
