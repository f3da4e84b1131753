"""The effort for the examination of one graph: checks, executors and LLVM's build."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: The executors that a graph is built for: all of the target's; one, which the graph's digest
#: selects; or the first of them.
EVERY, ONE, FIRST = "every", "one", "first"


@dataclass(frozen=True)
class Effort:
    """The effort for one graph.

    checks: ids of the checks to make. executors: EVERY, ONE, FIRST or an executor's name. with_llvm:
    whether LLVM builds the graph too, which shows whether TVM itself is wrong. merged: whether the
    graph is a union whose graphs are partitioned one by one; the sources that the target generates
    for its regions may then be compiled as one. openings: the number of openings that the check
    `dynamic` tries. equivalents: the number of changes that the check `equivalent` tries. asks_tvm:
    whether, where an artifact fails, TVM's own is loaded too, which shows whether TVM itself fails; a
    failure without it is not final."""

    checks: tuple[str, ...]
    executors: str = EVERY
    with_llvm: bool = True
    merged: bool = False
    openings: int = 0
    equivalents: int = 0
    asks_tvm: bool = True

    def in_full(self) -> Effort:
        """Returns the effort with the same checks, every executor, LLVM's build and TVM's artifacts. A
        union is partitioned as a whole."""
        return replace(self, executors=EVERY, with_llvm=True, asks_tvm=True, merged=False)

    @property
    def only_looks(self) -> bool:
        """Returns whether a failure is looked at again with every executor, so that the build may be fast."""
        return self.executors in (ONE, FIRST)

    def briefly(self, executor: str | None) -> Effort:
        """Returns the effort with the same checks, for one executor (None: the same executors), and without
        anything that TVM does alone."""
        return replace(self, executors=executor or self.executors, with_llvm=False, asks_tvm=False)

    def apart(self) -> Effort:
        """Returns the effort for one graph of a union."""
        return replace(self, merged=False)
