"""The patterns that TVM holds for a target, and graphs that the target offloads for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core.graph import Graph
from ..examination.examiner import Examiner
from ..generation.patterns import Pattern, SearchResult, made_of, not_among, search
from ..record.target_record import TargetRecord
from ..report.words import counted

#: Words of the report for patterns without a graph that is offloaded, by `SearchResult.fate`.
_FATES = {"shadowed": "never matched in its table", "never": "never matched"}
#: Number of patterns that the report names of those that are not tested.
_NAMED = 6


class Patterns:
    """The patterns that TVM holds for one target.

    operators: the operators that are tested. left_out: names of the patterns that contain other
    operators; `names` fills it."""

    def __init__(self, examiner: Examiner, record: TargetRecord, operators: Sequence[str]) -> None:
        self._examiner = examiner
        self._record = record
        self._operators = operators
        self._ir = examiner.workers.ir
        self._patterns: dict[str, Pattern] | None = None
        self._results: dict[str, SearchResult] = {}
        self.left_out: list[str] = []

    def names(self) -> list[str]:
        """Returns the names of the target's patterns that consist of tested operators only."""
        if self._patterns is None:
            found = self._examiner.partitions.patterns()
            tables = sorted({p.table for p in found})
            if len(tables) > 1:
                self._record.not_checked.append(
                    f"which patterns the target uses: its own name and those of its regions are none of "
                    f"{', '.join(tables)}, so the patterns of all these tables are tested; name one by the "
                    "target's key or attribute patterns"
                )
            unknown = self._examiner.partitions.without_table
            if unknown:
                self._record.not_checked.append(
                    f"the patterns of {', '.join(unknown)}: TVM has none registered under the target's name "
                    "or the first part of these names; name their table by the target's key or attribute "
                    "patterns"
                )
            chosen = set(self._operators)
            self._patterns = {p.label: p for p in found if made_of(p, chosen, self._ir)}
            others = {
                p.label: not_among(p, chosen, self._ir) for p in found if p.label not in self._patterns
            }
            if others:
                named = [f"{label} ({', '.join(ops)})" for label, ops in others.items()]
                more = [f"and {len(named) - _NAMED} more"] * (len(named) > _NAMED)
                self._record.not_checked.append(
                    f"{counted(len(named), 'pattern')} of operators that are not tested: "
                    + ", ".join([*named[:_NAMED], *more])
                )
            self.left_out = list(others)
        return list(self._patterns)

    def search_result(self, name: str) -> SearchResult:
        """Returns graphs that the target offloads by this pattern, or the reason why there are
        none."""
        self.names()
        assert self._patterns is not None
        if name not in self._results:
            partitions = self._examiner.partitions
            try:
                found = search(self._patterns[name], self._ir, partitions.composites, partitions.alone)
            except Exception as e:
                # The pattern's own test raises it; other tests go on without its graphs.
                reason = f"the search for its graphs raised {type(e).__name__}: {e}"
                found = SearchResult(name, reason=reason, failed=e)
            if found.fragments:
                # Alternatives of the pattern may contain operators that are not tested.
                tested = [f for f in found.fragments if self._is_tested(f.graph)]
                found = replace(found, fragments=tested or found.fragments)
            self._results[name] = found
            self._record.patterns[name] = "" if found.fragments else str(found.reason)
            if not found.fragments:
                self._record.not_checked.append(f"pattern {name} is {_FATES[found.fate]}: {found.reason}")
        return self._results[name]

    def fragments(self) -> list[Graph]:
        """Returns the smallest fragment found for each pattern."""
        names = self.names()
        for name in self._examiner.peers.beginning_elsewhere(names):
            self.search_result(name)
        found = (self.search_result(name).fragments for name in names)
        smallest = [min((f.graph for f in fs), key=lambda g: len(g.nodes)) for fs in found if fs]
        return [g for g in smallest if self._is_tested(g)]

    def _is_tested(self, graph: Graph) -> bool:
        return set(graph.operators) <= set(self._operators)
