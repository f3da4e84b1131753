"""What the suite's tests ask of a target: what it takes; verdicts on its cases, structures and regions."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from . import side_by_side
from .checks import selection
from .claims import Claim
from .generation import beyond
from .generation.builder import Builder
from .generation.channels_last import channels_last, has_layout
from .generation.neighbours import between, followed, forms
from .generation.patterns import kind, near_misses, spread, twice
from .generation.structures import NUMERIC, STRUCTURES, Unavailable, Vocabulary
from .generation.systematic import Case, cases, default_case
from .graph import Graph
from .levels import LEVELS
from .operators import OPERATORS
from .outcome import Verdict
from .side_by_side import Group

if TYPE_CHECKING:
    from .session import TargetSession

#: Patterns whose graphs are examined side by side where there are few of each.
_PATTERNS = 8
#: Graphs partitioned at once in the search for a region: the first few are often enough.
_AT_ONCE = 6
#: The graph of an operator among others; None where there is none.
_Make = Callable[[str], Graph | None]
#: The same of its name, a dtype, the operators the target takes, and the IR.
_MakeOfClaimed = Callable[[str, str, Sequence[str], str], Graph | None]
_Kind = TypeVar("_Kind")


class Suite:
    """Of one target's session. What the target takes of a graph is found out by partitioning alone, which
    costs milliseconds; what it takes nothing of needs no more."""

    def __init__(self, session: TargetSession) -> None:
        self._session = session
        #: Ids of the cases that are to be run; None: not known.
        self.selected: frozenset[str] | None = None
        self._claimed: dict[str, list[str]] | None = None
        #: Of each operator the first systematic case that the target takes, if there is one.
        self._first_of: dict[str, str | None] = {}
        self._vocabulary: Vocabulary | None = None
        #: Whether the target takes images of an operator with channels last alone.
        self._last: dict[str, bool] = {}
        self._groups: dict[str, dict[str, Group]] = {}

    # --- what the target takes ---------------------------------------------------------------

    def claimed(self) -> dict[str, list[str]]:
        """Operators of which the target takes at least one systematic case of the level, and their dtypes."""
        if self._claimed is None:
            found = self._cases()
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

    def _cases(self, *operators: str) -> list[Case]:
        """The systematic cases of the level, of some operators or of all that are asked for."""
        settings = self._session.settings
        names, ir = operators or settings.operators, self._session.ir
        self._with_channels_last(names)
        found = [*map(self._of_target, cases(names, ir)), *beyond.cases(names, ir)]
        return [c for c in found if settings.level.all_cases or c.smoke]

    def _with_channels_last(self, names: Collection[str]) -> frozenset[str]:
        """Those of the operators of which the target takes no images in TVM's default layout, but some with
        channels last, by what it claims of each one's default case."""
        session, ir = self._session, self._session.ir
        new = [n for n in names if n not in self._last and ir in OPERATORS[n].irs() and has_layout(n)]
        defaults = {n: default_case(n, OPERATORS[n].dtypes[0], ir).graph for n in new}
        survey = session.examiner.claims.survey
        refused = [n for n, claim in zip(defaults, survey(defaults.values())) if not _takes(claim)]
        others = {n: g for n in refused if (g := channels_last(defaults[n], ir)) is not None}
        taken = {n for n, claim in zip(others, survey(others.values())) if _takes(claim)}
        self._last.update((n, n in taken) for n in new)
        session.record.not_checked += [
            f"{n} with channels second: the target takes it with channels last alone, so that all its graphs "
            "but the simplest case have them last" for n in sorted(taken)
        ]
        return frozenset(n for n in names if self._last.get(n))

    def _laid_out(self, graph: Graph) -> Graph:
        """The graph as the target may take it: images with channels last, if it takes no others."""
        moved = self._with_channels_last(graph.operators)
        return (channels_last(graph, self._session.ir) if moved else None) or graph

    def _of_target(self, case: Case) -> Case:
        return case if case.simplest or case.without_llvm else replace(case, graph=self._laid_out(case.graph))

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
        return Vocabulary(taken | self._with_channels_last(defaults))

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
            found += map(self._laid_out, between(operator, dtype, list(claimed), self._session.ir))
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

    # --- verdicts ----------------------------------------------------------------------------

    def check_case(self, case: Case) -> Verdict:
        """`TargetSession.check` of a systematic case. No more is found out before than it needs: what fails
        at once is told at once."""
        case = self._of_target(case)
        chosen = self._chosen(case)
        if not self._session.is_plain(case.graph, case.id, chosen):
            return self._session.check(case.graph, case.id, chosen=chosen)
        kind = case.turn if case.early else f"{case.turn} of {case.operator}"
        if case.without_llvm:
            kind += " without LLVM"
        return self._check(f"cases: {kind}", case.id, case.graph, False, partial(self._alike_cases, case))

    def check_structure(self, name: str) -> Verdict:
        """`TargetSession.check` of a structure. Raises structures.Unavailable."""
        graph = self._structure(name)
        return self._check("structures", name, graph, self._at_once(name), self._alike_structures, many=True)

    def check_thoroughly(self, name: str) -> Verdict | None:
        """`TargetSession.check` of a structure with all checks; None where it fails without them already.
        Raises structures.Unavailable."""
        session, graph = self._session, self._structure(name)
        quick = session.settings.level.is_quick(many=True)
        if self._runs(name) and session.examiner.examine(graph, session.checks(False), quick).failed:
            return None
        return session.check(graph, selection.thorough_case(name), chosen=True)

    def _structure(self, name: str) -> Graph:
        if self._vocabulary is None:
            self._vocabulary = self.vocabulary()
        return self._laid_out(STRUCTURES[name](Builder(seed=1), self._vocabulary))

    def _at_once(self, structure: str) -> bool:
        """Whether all checks are made on a structure when it is met first."""
        return not selection.thorough(self._session.settings.level.name) and structure not in NUMERIC

    def check_region(self, operator: str) -> Verdict | None:
        """`TargetSession.check` of what `in_region` finds; None where it finds nothing."""
        return self._check_among_others("region", operator, self.in_region)

    def check_followed(self, operator: str) -> Verdict | None:
        """`TargetSession.check` of the operator with others behind it; None where none fits."""
        return self._check_among_others("followed", operator, partial(self._of_claimed, followed), many=True)

    def check_forms(self, operator: str) -> Verdict | None:
        """`TargetSession.check` of the operator in several forms on one value; None where it has one."""
        return self._check_among_others("forms", operator, partial(self._of_claimed, forms), many=True)

    def _check_among_others(
        self, kind: str, operator: str, make: _Make, many: bool = False
    ) -> Verdict | None:
        graph = make(operator)
        if graph is None:
            return None
        alike = partial(self._alike_among_others, kind, make)
        return self._check(kind, f"{kind}[{operator}]", graph, False, alike, many)

    def _of_claimed(self, make: _MakeOfClaimed, operator: str) -> Graph | None:
        claimed = self.claimed()
        graph = make(operator, claimed[operator][0], list(claimed), self._session.ir)
        return graph and self._laid_out(graph)

    def check_pattern(self, name: str) -> str:
        """`TargetSession.check` of the graphs of one of the target's patterns; why there are none, or ""."""
        found = self._session.found(name)
        # Graphs that another pattern takes in its place are the target's all the same.
        for fragment in found.shadowed[:1] if not found.fragments else ():
            self._session.check(fragment.graph, f"{name}[shadowed]")
        few = self._session.settings.level.ways is not None
        names = self._session.patterns()
        at = names.index(name) // _PATTERNS * _PATTERNS
        together = names[at : at + _PATTERNS] if few else [name]
        for case, graph, chosen in self._of_pattern(name):
            self._check(f"patterns from {together[0]} on", case, graph, chosen,
                        partial(self._alike_patterns, together))
        if found.fragments:
            return ""
        return f"{'shadowed' if found.shadowed else 'never matched'}: {found.reason}"

    def _of_pattern(self, name: str) -> list[tuple[str, Graph, bool]]:
        """Case, graph, and whether it is chosen, of each graph of a pattern that the level has: its ways, the
        smallest of them twice, and graphs one step off."""
        level, fragments = self._session.settings.level, self._session.found(name).fragments
        limit = level.near_misses
        if level.all_cases and not all(self._first_case(o) for f in fragments for o in f.graph.operators):
            # Of an operator that is taken in patterns alone there are no systematic cases.
            limit = max(limit, LEVELS["full"].near_misses)
        near = [
            (kind(label), (f"{name}[{fragment.way}-{label}]", graph, False))
            for fragment in fragments
            for label, graph in near_misses(fragment.graph, self._session.ir)
        ]
        # Of each pattern all checks are made on its first way.
        ways = [
            (f"{name}[{fragment.way}]", fragment.graph, number == 0)
            for number, fragment in enumerate(fragments[: level.ways])
        ]
        if fragments:
            smallest = min((f.graph for f in fragments), key=lambda graph: len(graph.nodes))
            ways.append((f"{name}[twice]", twice(smallest), False))
        return ways + spread(near, limit)

    def _check(
        self, kind: str, case: str, graph: Graph, chosen: bool, alike: Callable[[], Mapping[str, Group]],
        many: bool = False,
    ) -> Verdict:
        """`alike`: of all cases of the kind the groups they are examined in: always the same ones of those
        that are selected, so that verdicts don't hang on the order of tests, nor on who runs them. many: as
        in `TargetSession.examine`."""
        session = self._session
        if kind not in self._groups:
            together = self.selected is not None and session.settings.level.side_by_side
            self._groups[kind] = dict(alike()) if together else {}
        group = self._groups[kind].get(case)
        if group is not None:
            session.ahead(group.graphs, many)
        verdict = session.check(graph, case, chosen=chosen, many=many)
        if group is not None and group.first == case:
            session.answer_for(group.graphs, case)
        return verdict

    def _chosen(self, case: Case) -> bool:
        return self._first_case(case.operator) == case.id

    def _first_case(self, name: str) -> str | None:
        """Id of the first systematic case of an operator that the target takes; None where it takes none."""
        if name not in self._first_of:
            found = self._cases(name)
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

    def _runs(self, case: str) -> bool:
        return self.selected is None or case in self.selected

    def _alike_cases(self, like: Case) -> dict[str, Group]:
        """Early ones of all operators together, the others by operator: first the few, then the rest."""
        found = self._cases() if like.early else self._cases(like.operator)
        # What LLVM cannot judge would keep it from judging the others.
        alike = (c for c in found if (c.turn, c.without_llvm) == (like.turn, like.without_llvm))
        some = [c for c in alike if self._runs(c.id)]
        # All of them are asked about at once, and then each by itself; an operator's others, too.
        asked = some if like.early else (c for c in found if self._runs(c.id))
        self._session.examiner.claims.survey(c.graph for c in asked)
        plain = (c for c in some if self._session.is_plain(c.graph, c.id, self._chosen(c)))
        return self._grouped({c.id: c.graph for c in plain})

    def _alike_structures(self) -> dict[str, Group]:
        found = {}
        for name in filter(self._runs, STRUCTURES):
            with suppress(Unavailable):
                found[name] = self._structure(name)
        return self._grouped(found)

    def _alike_among_others(self, kind: str, make: _Make) -> dict[str, Group]:
        found = {f"{kind}[{o}]": make(o) for o in self.claimed() if self._runs(f"{kind}[{o}]")}
        return self._grouped({case: graph for case, graph in found.items() if graph is not None})

    def _alike_patterns(self, names: Sequence[str]) -> dict[str, Group]:
        """What is one step off stands behind: TVM itself may not build it."""
        level, plain = self._session.settings.level, self._session.is_plain
        each = [self._of_pattern(name) for name in names if self._runs(f"{name}[")]
        found = [g for graphs in each for g in graphs[: level.ways]]
        found += [g for graphs in each for g in graphs if g not in found]
        return self._grouped({case: graph for case, graph, chosen in found if plain(graph, case, chosen)})

    def _grouped(self, graphs: Mapping[str, Graph]) -> dict[str, Group]:
        return side_by_side.of_cases(graphs, self._session.examiner.claims, self._session.ir)


def _takes(claim: Claim | None) -> bool:
    # Where partitioning fails the target has at least tried.
    return claim is None or any(claim.offloaded)
