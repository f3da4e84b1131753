"""How much is done to examine one graph."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: The executors that a graph is built for: each of the target's, or one, which the graph's digest selects.
EVERY, ONE = "every", "one"


@dataclass(frozen=True)
class Effort:
    """The effort for one graph.

    checks: ids of the checks that are made. executors: EVERY or ONE. with_llvm: whether LLVM builds the graph
    too, so that it is seen whether TVM itself is wrong. merged: the graph is a union whose graphs are
    partitioned one by one; what the target makes of its regions may be compiled as one source."""

    checks: tuple[str, ...]
    executors: str = EVERY
    with_llvm: bool = True
    merged: bool = False

    def in_full(self) -> Effort:
        """The same checks with every executor and LLVM's build, of the union as a whole."""
        return replace(self, executors=EVERY, with_llvm=True, merged=False)

    def apart(self) -> Effort:
        """The effort for one graph of a union."""
        return replace(self, merged=False)
