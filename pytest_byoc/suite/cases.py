"""What the suite's tests ask of a target: verdicts on cases, structures, regions and patterns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from ..config import plan
from ..config.levels import LEVELS
from ..config.plan import ALL_CHECKS, NUMEROUS, PLAIN
from ..core.graph import Graph
from ..examination.outcome import Verdict
from ..generation.builder import Builder
from ..generation.neighbours import followed, forms
from ..generation.patterns import kind, near_misses, spread, twice
from ..generation.structures import NUMERIC, STRUCTURES, Vocabulary
from ..generation.systematic import Case
from . import batching
from .batching import Group
from .offloaded import Offloaded

if TYPE_CHECKING:
    from .session import TargetSession

#: Patterns whose graphs are examined side by side where there are few of each.
_PATTERNS = 8
#: Operators whose early cases are partitioned and examined side by side before those of the next operators:
#: to partition all of them at first would delay the first verdict.
_OPERATORS = 32
#: The graph of an operator among others; None where there is none.
_Make = Callable[[str], Graph | None]
#: The same of its name, a dtype, the operators the target takes, and the IR.
_MakeOfClaimed = Callable[[str, str, Sequence[str], str], Graph | None]


class Suite:
    """The graphs of one target's suite, each examined by the target's session (`TargetSession.check`).

    offloaded: what the target offloads."""

    def __init__(self, session: TargetSession) -> None:
        self._session = session
        self.offloaded = Offloaded(session)
        #: Ids of the cases that are to be run; None: not known.
        self.selected: frozenset[str] | None = None
        self._vocabulary: Vocabulary | None = None
        self._groups: dict[str, dict[str, Group]] = {}

    def check_case(self, case: Case) -> Verdict:
        """`TargetSession.check` of a systematic case. No more is found out before than it needs: what fails
        at once is told at once."""
        case = self.offloaded.of_target(case)
        kinds = self._kinds(case)
        if not self._session.is_plain(case.graph, kinds):
            return self._session.check(case.graph, case.id, kinds)
        kind = f"{case.turn} of {self._alike_operators(case)[0]}"
        if case.without_llvm:
            kind += " without LLVM"
        return self._check(f"cases: {kind}", case.id, case.graph, kinds, partial(self._alike_cases, case))

    def check_structure(self, name: str) -> Verdict:
        """`TargetSession.check` of a structure. Raises structures.Unavailable."""
        graph = self._structure(name)
        kinds = {NUMEROUS, ALL_CHECKS} if self._at_once(name) else {NUMEROUS}
        return self._check("structures", name, graph, kinds, self._alike_structures)

    def check_thoroughly(self, name: str) -> Verdict | None:
        """`TargetSession.check` of a structure with all checks; None where it fails without them already.
        Raises structures.Unavailable."""
        session, graph = self._session, self._structure(name)
        plain = plan.effort(session.settings.level, {NUMEROUS})
        if self._runs(name) and session.examiner.examine(graph, plain).failed:
            return None
        return session.check(graph, plan.thorough_case(name), {ALL_CHECKS, name})

    def _structure(self, name: str) -> Graph:
        if self._vocabulary is None:
            self._vocabulary = self.offloaded.vocabulary()
        return self.offloaded.adapted(STRUCTURES[name](Builder(seed=1), self._vocabulary))[0]

    def _at_once(self, structure: str) -> bool:
        """Whether all checks are made on a structure when it is met first."""
        return not plan.thorough(self._session.settings.level.name) and structure not in NUMERIC

    def check_region(self, operator: str) -> Verdict | None:
        """`TargetSession.check` of what `in_region` finds; None where it finds nothing."""
        return self._check_among_others("region", operator, self.offloaded.in_region)

    def check_followed(self, operator: str) -> Verdict | None:
        """`TargetSession.check` of the operator with others behind it; None where none fits."""
        return self._check_among_others("followed", operator, partial(self._of_claimed, followed), {NUMEROUS})

    def check_forms(self, operator: str) -> Verdict | None:
        """`TargetSession.check` of the operator in several forms on one value; None where it has one."""
        return self._check_among_others("forms", operator, partial(self._of_claimed, forms), {NUMEROUS})

    def _check_among_others(
        self, kind: str, operator: str, make: _Make, kinds: Set[str] = PLAIN
    ) -> Verdict | None:
        graph = make(operator)
        if graph is None:
            return None
        alike = partial(self._alike_among_others, kind, make)
        return self._check(kind, f"{kind}[{operator}]", graph, kinds, alike)

    def _of_claimed(self, make: _MakeOfClaimed, operator: str) -> Graph | None:
        claimed = self.offloaded.operators()
        graph = make(operator, claimed[operator][0], list(claimed), self._session.ir)
        return graph and self.offloaded.adapted(graph)[0]

    def check_pattern(self, name: str) -> str:
        """`TargetSession.check` of the graphs of one of the target's patterns; why there are none, or ""."""
        found = self._session.patterns.found(name)
        if found.failed is not None:
            raise found.failed
        # Graphs that another pattern takes in its place are the target's all the same.
        for fragment in found.shadowed[:1] if not found.fragments else ():
            self._session.check(fragment.graph, f"{name}[shadowed]")
        if found.raising is not None:
            self._session.check(found.raising, f"{name}[raising]")
        few = self._session.settings.level.ways is not None
        names = self._session.patterns.names()
        at = names.index(name) // _PATTERNS * _PATTERNS
        together = names[at : at + _PATTERNS] if few else [name]
        for case, graph, kinds in self._of_pattern(name):
            alike = partial(self._alike_patterns, together)
            self._check(f"patterns from {together[0]} on", case, graph, kinds, alike)
        if found.fragments:
            return ""
        return f"{'shadowed' if found.shadowed else 'never matched'}: {found.reason}"

    def _of_pattern(self, name: str) -> list[tuple[str, Graph, Set[str]]]:
        """Case, graph and kinds of each graph of a pattern that the level has: its ways, the smallest of them
        twice, and its near misses."""
        level, fragments = self._session.settings.level, self._session.patterns.found(name).fragments
        limit = level.near_misses
        operators = {o for f in fragments for o in f.graph.operators}
        if level.all_cases and not all(map(self.offloaded.first_case, sorted(operators))):
            # Of an operator that is taken in patterns alone there are no systematic cases.
            limit = max(limit, LEVELS["full"].near_misses)
        near: list[tuple[str, tuple[str, Graph, Set[str]]]] = [
            (kind(label), (f"{name}[{fragment.way}-{label}]", graph, PLAIN))
            for fragment in fragments
            for label, graph in near_misses(fragment.graph, self._session.ir)
        ]
        # Of each pattern all checks are made on its first way. Of few ways one has all that is optional.
        few = fragments[: level.ways]
        longest = max(fragments, key=lambda f: len(f.graph.nodes), default=None)
        if longest is not None and longest not in few:
            few = [*few, longest]
        first, others = few[:1], few[1:]
        ways: list[tuple[str, Graph, Set[str]]] = [
            *((f"{name}[{f.way}]", f.graph, {ALL_CHECKS}) for f in first),
            *((f"{name}[{f.way}]", f.graph, PLAIN) for f in others),
        ]
        if fragments:
            smallest = min((f.graph for f in fragments), key=lambda graph: len(graph.nodes))
            ways.append((f"{name}[twice]", twice(smallest), PLAIN))
        return ways + spread(near, limit)

    def _check(
        self, kind: str, case: str, graph: Graph, kinds: Set[str], alike: Callable[[], Mapping[str, Group]]
    ) -> Verdict:
        """Checks the graph of a case, after the group that it is in.

        alike: the groups of all cases of the kind that are selected: they are always the same, so that
        verdicts depend neither on the order of tests nor on the process that runs them. kinds: of the
        graph."""
        session = self._session
        if kind not in self._groups:
            together = self.selected is not None and session.settings.level.side_by_side
            self._groups[kind] = dict(alike()) if together else {}
        group = self._groups[kind].get(case)
        if group is not None:
            session.ahead(group.graphs, kinds)
        verdict = session.check(graph, case, kinds)
        if group is not None and group.first == case:
            session.answer_for(group.graphs, case)
        return verdict

    def _kinds(self, case: Case) -> Set[str]:
        return {*case.kinds, ALL_CHECKS} if self.offloaded.is_first(case) else case.kinds

    def _alike_operators(self, case: Case) -> Sequence[str]:
        """The operators whose cases are examined with this one: a few if it is early, or its own alone."""
        names = self._session.operators
        at = names.index(case.operator)
        at, number = (at // _OPERATORS * _OPERATORS, _OPERATORS) if case.early else (at, 1)
        return names[at : at + number]

    def _runs(self, case: str) -> bool:
        return self.selected is None or case in self.selected

    def _alike_cases(self, like: Case) -> dict[str, Group]:
        """Early ones of several operators together, the others by operator: first the few, then the rest."""
        found = self.offloaded.cases(*self._alike_operators(like))
        # What LLVM cannot judge would keep it from judging the others.
        alike = (c for c in found if (c.turn, c.without_llvm) == (like.turn, like.without_llvm))
        some = [c for c in alike if self._runs(c.id)]
        # All of them are asked about at once, and then each by itself; an operator's others, too.
        asked = some if like.early else (c for c in found if self._runs(c.id))
        self._session.examiner.claims.survey(c.graph for c in asked)
        plain = (c for c in some if self._session.is_plain(c.graph, self._kinds(c)))
        return self._grouped({c.id: c.graph for c in plain})

    def _alike_structures(self) -> dict[str, Group]:
        found = {}
        for name in filter(self._runs, STRUCTURES):
            # One that can't be made costs the others nothing: its own test tells why.
            with suppress(Exception):
                found[name] = self._structure(name)
        return self._grouped(found)

    def _alike_among_others(self, kind: str, make: _Make) -> dict[str, Group]:
        found = {}
        for operator in self.offloaded.operators():
            case = f"{kind}[{operator}]"
            # As for structures.
            with suppress(Exception):
                graph = make(operator) if self._runs(case) else None
                if graph is not None:
                    found[case] = graph
        return self._grouped(found)

    def _alike_patterns(self, names: Sequence[str]) -> dict[str, Group]:
        """What is one step off stands behind: TVM itself may not build it."""
        level, plain = self._session.settings.level, self._session.is_plain
        each = [self._of_pattern(name) for name in names if self._runs(f"{name}[")]
        found = [g for graphs in each for g in graphs[: level.ways]]
        found += [g for graphs in each for g in graphs if g not in found]
        return self._grouped({case: graph for case, graph, kinds in found if plain(graph, kinds)})

    def _grouped(self, graphs: Mapping[str, Graph]) -> dict[str, Group]:
        return batching.of_cases(graphs, self._session.examiner.claims, self._session.ir)
