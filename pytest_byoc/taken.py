"""What a target takes: found out by partitioning alone, which costs milliseconds."""

from __future__ import annotations

import gc
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from .claims import Claim
from .generation import beyond, systematic
from .generation.channels_last import channels_last, has_layout
from .generation.neighbours import between
from .generation.structures import Vocabulary
from .generation.systematic import Case, default_case
from .graph import Graph
from .operators import OPERATORS

if TYPE_CHECKING:
    from .session import TargetSession

#: Graphs partitioned at once in the search for a region: the first few are often enough.
_AT_ONCE = 6
_Kind = TypeVar("_Kind")


class Taken:
    """Of one target's session. The graphs that tests ask for are made by it."""

    def __init__(self, session: TargetSession) -> None:
        self._session = session
        self._claimed: dict[str, list[str]] | None = None
        #: Of each operator the first systematic case that the target takes, if there is one.
        self._first_of: dict[str, str | None] = {}
        #: Whether the target takes images of an operator with channels last alone.
        self._last: dict[str, bool] = {}

    def claimed(self) -> dict[str, list[str]]:
        """Operators of which the target takes at least one systematic case of the level, and their dtypes."""
        if self._claimed is None:
            found = self.cases()
            kinds: dict[tuple[str, str], list[int]] = {}
            for number, case in enumerate(found):
                dtype = case.graph.type_of(case.graph.nodes[0].inputs[0]).dtype
                kinds.setdefault((case.operator, dtype), []).append(number)
            taken = self._first_taken({k: [found[n] for n in numbers] for k, numbers in kinds.items()})
            self._claimed = {}
            for operator, dtype in sorted(taken, key=lambda kind: kinds[kind][taken[kind]]):
                self._claimed.setdefault(operator, []).append(dtype)
            # As when the session opened: what has been made since stays too.
            gc.freeze()
        return self._claimed

    def cases(self, *operators: str) -> list[Case]:
        """The systematic cases of the level, of some operators or of all that are asked for."""
        settings = self._session.settings
        names, ir = operators or settings.operators, self._session.ir
        self._with_channels_last(names)
        found = [*map(self.of_target, systematic.cases(names, ir)), *beyond.cases(names, ir)]
        return [c for c in found if settings.level.all_cases or c.smoke]

    def _with_channels_last(self, names: Collection[str]) -> frozenset[str]:
        """Those of the operators of which the target takes no images in TVM's default layout, but some with
        channels last, by what it claims of each one's default case."""
        new = [n for n in names if n not in self._last]
        if new:
            self._ask(new)
        return frozenset(n for n in names if self._last[n])

    def _ask(self, names: Sequence[str]) -> None:
        """Finds out which of the operators the target takes with channels last alone."""
        session, ir = self._session, self._session.ir
        of_images = [n for n in names if ir in OPERATORS[n].irs() and has_layout(n)]
        defaults = {n: default_case(n, OPERATORS[n].dtypes[0], ir).graph for n in of_images}
        survey = session.examiner.claims.survey
        refused = [n for n, claim in zip(defaults, survey(defaults.values())) if not _takes(claim)]
        others = {n: g for n in refused if (g := channels_last(defaults[n], ir)) is not None}
        taken = {n for n, claim in zip(others, survey(others.values())) if _takes(claim)}
        self._last.update((n, n in taken) for n in names)
        session.record.not_checked += [
            f"{n} with channels second: the target takes it with channels last alone, so that all its graphs "
            "but the simplest case have them last" for n in sorted(taken)
        ]

    def laid_out(self, graph: Graph) -> Graph:
        """The graph as the target may take it: images with channels last, if it takes no others."""
        moved = self._with_channels_last(graph.operators)
        return (channels_last(graph, self._session.ir) if moved else None) or graph

    def of_target(self, case: Case) -> Case:
        graph = case.graph if case.simplest or case.without_llvm else self.laid_out(case.graph)
        return case if graph is case.graph else replace(case, graph=graph)

    def vocabulary(self) -> Vocabulary:
        """Operators to build structures from, by what the target claims of each one's default case."""
        ir = self._session.ir
        defaults = {
            name: default_case(name, "float32", ir).graph
            for name in self._session.settings.operators
            if ir in OPERATORS[name].irs() and "float32" in OPERATORS[name].dtypes
        }
        claims = self._session.examiner.claims.survey(defaults.values())
        taken = frozenset(n for n, c in zip(defaults, claims) if _takes(c))
        asked = frozenset(self._session.settings.operators)
        return Vocabulary(taken | self._with_channels_last(defaults), asked)

    def drawn(self) -> list[str]:
        """Operators that random graphs are made of: no graph passes in which TVM would have to run what its
        runtime library lacks."""
        lacking = self._session.examiner.workers.host_lacks - set(self.claimed())
        found = [o for o in self._session.settings.operators if o not in lacking]
        left = sorted(lacking.intersection(self._session.settings.operators))
        text = f"random graphs with {', '.join(left)}: TVM is left to run them, and its runtime library can't"
        if left and text not in self._session.record.not_checked:
            self._session.record.not_checked.append(text)
        return found

    def parts_with(self, operator: str) -> list[Graph]:
        """Graphs of the target's patterns that hold an operator."""
        return [g for g in self._session.fragments() if operator in g.operators]

    def in_region(self, operator: str) -> Graph | None:
        """A graph in which the target takes the operator in one region with others: the largest found, of
        its patterns' graphs and of its neighbours among what the target takes; None where there is none."""
        claimed = self.claimed()
        found = self.parts_with(operator)
        for dtype in claimed[operator][:2]:
            found += map(self.laid_out, between(operator, dtype, list(claimed), self._session.ir))
        # The largest first, a few at a time: of a graph that is one region as a whole no other is larger.
        found.sort(key=lambda graph: -len(graph.nodes))
        best, size = None, 1.0
        for at in range(0, len(found), _AT_ONCE):
            some = found[at : at + _AT_ONCE]
            for graph, claim in zip(some, self._session.examiner.claims.survey(some)):
                taken = [n.op for n, t in zip(graph.nodes, claim.offloaded if claim else ()) if t]
                # Operators per region: more than one, so that one of the regions has several.
                if claim and operator in taken and len(taken) / claim.regions > size:
                    best, size = graph, len(taken) / claim.regions
            if size >= len(some[-1].nodes):
                break
        return best

    def first_case(self, name: str) -> str | None:
        """Id of the first systematic case of an operator that the target takes; None where it takes none."""
        if name not in self._first_of:
            found = self.cases(name)
            taken = self._first_taken({name: found})
            self._first_of[name] = found[taken[name]].id if taken else None
        return self._first_of[name]

    def _first_taken(self, found: Mapping[_Kind, Sequence[Case]]) -> dict[_Kind, int]:
        """Of each kind the position of the first of its cases that the target takes, mostly the first of
        all; nothing of kinds of which it takes none."""
        taken: dict[_Kind, int] = {}
        begin, end, longest = 0, 1, max(map(len, found.values()), default=0)
        while begin < longest:
            asked = [
                (kind, at, case) for kind, of_kind in found.items() if kind not in taken
                for at, case in enumerate(of_kind[begin:end], begin)
            ]
            claims = self._session.examiner.claims.survey(case.graph for _, _, case in asked)
            for (of, at, _), claim in zip(asked, claims):
                if _takes(claim):
                    taken.setdefault(of, at)
            begin, end = end, 8 * end
        return taken


def _takes(claim: Claim | None) -> bool:
    # Where partitioning fails the target has at least tried.
    return claim is None or any(claim.offloaded)
