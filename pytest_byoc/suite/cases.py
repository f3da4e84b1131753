"""The suite of one target: returns verdicts on cases, structures, regions and patterns to the
tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from copy import copy
from functools import partial
from typing import TYPE_CHECKING

from ..config import plan
from ..config.levels import LEVELS
from ..config.plan import ALL_CHECKS, NUMEROUS, OPENED, PLAIN
from ..core.graph import Graph
from ..examination.outcome import Verdict
from ..examination.partitions import AT_ONCE
from ..generation.builder import Builder
from ..generation.neighbours import followed, forms
from ..generation.patterns import OPERAND_FORMS, kind, near_misses, spread, twice
from ..generation.structures import NUMERIC, STRUCTURES, Vocabulary
from ..generation.systematic import Case
from . import batching
from .batching import Group
from .offloaded_operators import Offloaded

if TYPE_CHECKING:
    from .session import TargetSession

#: Number of patterns whose graphs are examined together at levels with few graphs per pattern.
_PATTERNS = 8
#: Number of operators whose early cases are partitioned and examined together, before those of the
#: next operators: partitioning the cases of all operators first would delay the first verdict.
_OPERATORS = 32
#: Builds the graph of an operator among others, or returns None if there is none.
_Make = Callable[[str], Graph | None]
#: Builds it from the operator's name, a dtype, the operators that the target offloads, and the IR.
_MakeWithOffloaded = Callable[[str, str, Sequence[str], str], Graph | None]


class Suite:
    """The suite of one target, whose graphs the target's session examines (`TargetSession.check`).

    offloaded: determines what the target offloads."""

    def __init__(self, session: TargetSession) -> None:
        self._session = session
        self.offloaded = Offloaded(session)
        #: Ids of the cases that are to be run; None if unknown.
        self.selected: frozenset[str] | None = None
        self._vocabulary: Vocabulary | None = None
        self._groups: dict[str, dict[str, Group]] = {}
        #: The operators of which `_survey_from` has had the cases partitioned.
        self._surveyed: set[str] = set()

    def foreseeing(self, session: TargetSession) -> Suite:
        """Returns the same suite for another session, with which it shares what it knows."""
        other = copy(self)
        other._session = session
        return other

    def check_case(self, case: Case) -> Verdict:
        """Checks a systematic case (see `TargetSession.check`). Partitions no more graphs before
        than are needed, so that an early failure is reported early."""
        case = self.offloaded.of_target(case)
        kinds = self._kinds(case)
        if not self._session.is_plain(case.graph, kinds):
            return self._session.check(case.graph, case.id, kinds)
        kind = f"{case.phase} of {with_operator(case, self._session.operators)[0]}"
        if case.without_llvm:
            kind += " without LLVM"
        return self._check(f"cases: {kind}", case.id, case.graph, kinds, partial(self._alike_cases, case))

    def check_structure(self, name: str) -> Verdict:
        """Checks a structure (see `TargetSession.check`). Raises structures.Unavailable if the
        target offloads too little to build it."""
        graph = self._structure(name)
        kinds = {NUMEROUS, ALL_CHECKS} if self._at_once(name) else {NUMEROUS}
        return self._check("structures", name, graph, kinds, self._alike_structures)

    def check_thoroughly(self, name: str) -> Verdict | None:
        """Checks a structure with all checks (see `TargetSession.check`). Returns None if the
        structure fails without the expensive checks already. Raises structures.Unavailable."""
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
        """Returns whether all checks are made when the structure is examined first."""
        return not plan.thorough(self._session.settings.level.name) and structure not in NUMERIC

    def check_region(self, operator: str) -> Verdict | None:
        """Checks the graph that `RegionSearch` finds for an operator; returns None if there is none."""
        regions = self.offloaded.regions
        regions.look_at(o for o in self.offloaded.operators() if self._runs(f"region[{o}]"))
        return self._check_among_others("region", operator, regions.of)

    def check_followed(self, operator: str) -> Verdict | None:
        """Checks a graph in which other operators follow the operator; returns None if none
        fits."""
        make = partial(self._with_offloaded, followed)
        return self._check_among_others("followed", operator, make, {NUMEROUS})

    def check_forms(self, operator: str) -> Verdict | None:
        """Checks a graph with the operator in several forms on one value; returns None if it has
        one form."""
        make = partial(self._with_offloaded, forms)
        return self._check_among_others("forms", operator, make, {NUMEROUS})

    def measure_operator(self, operator: str) -> Verdict | None:
        """Checks and measures the first case of an operator that the target offloads, enlarged.
        Returns None if it offloads none."""
        first = self.offloaded.first_case(operator)
        if first is None:
            return None
        graph = next(c.graph for c in self.offloaded.cases(operator) if c.id == first)
        return self._measure(operator, graph)

    def measure_pattern(self, name: str) -> Verdict | None:
        """Checks and measures the longest graph that matches a pattern, enlarged. Returns None if
        there is none, or if it is one operator, which is measured as such."""
        found = self._session.patterns.search_result(name).fragments
        longest = max((f.graph for f in found), key=lambda graph: len(graph.nodes), default=None)
        if longest is None or (len(longest.nodes) == 1 and self.offloaded.first_case(longest.nodes[0].op)):
            return None
        return self._measure(name, longest)

    def _measure(self, name: str, graph: Graph) -> Verdict:
        return self._session.check(self.offloaded.enlarged(graph), plan.speed_case(name), {plan.MEASURED})

    def _check_among_others(
        self, kind: str, operator: str, make: _Make, kinds: Set[str] = PLAIN
    ) -> Verdict | None:
        graph = make(operator)
        if graph is None:
            return None
        alike = partial(self._alike_among_others, kind, make)
        return self._check(kind, f"{kind}[{operator}]", graph, kinds, alike)

    def _with_offloaded(self, make: _MakeWithOffloaded, operator: str) -> Graph | None:
        offloaded = self.offloaded.operators()
        graph = make(operator, offloaded[operator][0], list(offloaded), self._session.ir)
        return graph and self.offloaded.adapted(graph)[0]

    def check_pattern(self, name: str) -> str:
        """Checks the graphs of one of the target's patterns. Returns the reason why there are none,
        or ""."""
        found = self._session.patterns.search_result(name)
        if found.failed is not None:
            raise found.failed
        # The target offloads these graphs too, though by another pattern.
        for fragment in found.shadowed[:1] if not found.fragments else ():
            self._session.check(fragment.graph, f"{name}[shadowed]")
        if found.raising is not None:
            self._session.check(found.raising, f"{name}[raising]")
        few = self._session.settings.level.ways is not None
        together = with_pattern(name, self._session.patterns.names(), few)
        for case, graph, kinds in self._of_pattern(name):
            alike = partial(self._alike_patterns, together)
            self._check(f"patterns from {together[0]} on", case, graph, kinds, alike)
        if found.fragments:
            return ""
        return f"{'shadowed' if found.shadowed else 'never matched'}: {found.reason}"

    def _of_pattern(self, name: str) -> list[tuple[str, Graph, Set[str]]]:
        """Returns case, graph and kinds of each graph that the level has for a pattern: a fragment
        for each way of matching it, the smallest fragment twice in one graph, and near misses."""
        level, fragments = self._session.settings.level, self._session.patterns.search_result(name).fragments
        limit = level.near_misses
        operators = {o for f in fragments for o in f.graph.operators}
        if level.all_cases and not all(map(self.offloaded.first_case, sorted(operators))):
            # An operator that is only offloaded within patterns has no systematic cases: more near
            # misses make up for them.
            limit = max(limit, LEVELS["full"].near_misses)
        # All checks are made on the first way. The longest fragment, with all optional parts, is
        # included at every level.
        few = fragments[: level.ways]
        longest = max(fragments, key=lambda f: len(f.graph.nodes), default=None)
        if longest is not None and longest not in few:
            few = [*few, longest]
        first, later = few[:1], few[1:]
        ways: list[tuple[str, Graph, Set[str]]] = [
            *((f"{name}[{f.way}]", f.graph, {ALL_CHECKS}) for f in first),
            *((f"{name}[{f.way}]", f.graph, PLAIN) for f in later),
        ]
        if fragments:
            smallest = min((f.graph for f in fragments), key=lambda graph: len(graph.nodes))
            ways.append((f"{name}[twice]", twice(smallest), PLAIN))
        near: list[tuple[str, tuple[str, Graph, Set[str]]]] = [
            (kind(label), (f"{name}[{fragment.way}-{label}]", graph, PLAIN))
            for fragment in fragments
            # The longest fragment has all operands.
            for label, graph in near_misses(fragment.graph, self._session.ir, forms=fragment is longest)
        ]
        operand_forms = [one for one in near if one[0] in OPERAND_FORMS]
        others = [one for one in near if one[0] not in OPERAND_FORMS]
        return [*ways, *spread(others, limit), *spread(operand_forms, level.operand_forms)]

    def _check(
        self, kind: str, case: str, graph: Graph, kinds: Set[str], alike: Callable[[], Mapping[str, Group]]
    ) -> Verdict:
        """Checks the graph of a case, after the group that the case is in.

        kind: names the cases that are grouped with this one. alike: returns the groups of all
        selected cases of that kind. They depend on the selection only, so that verdicts depend
        neither on the order of tests nor on the process that runs them. kinds: the kinds of the
        graph (`config/plan.py`)."""
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
        return {*case.kinds, ALL_CHECKS, OPENED} if self.offloaded.is_first(case) else case.kinds

    def _runs(self, case: str) -> bool:
        return self.selected is None or case in self.selected

    def _alike_cases(self, like: Case) -> dict[str, Group]:
        """Returns the groups of the cases with the same `phase`: early cases of several operators
        together, the other cases by operator."""
        found = self.offloaded.cases(*with_operator(like, self._session.operators))
        # A case that LLVM cannot judge would hide the others in the same module.
        alike = (c for c in found if (c.phase, c.without_llvm) == (like.phase, like.without_llvm))
        some = [c for c in alike if self._runs(c.id)]
        if like.early:
            self._session.examiner.partitions.survey(c.graph for c in some)
        else:
            self._survey_from(like.operator)
        plain = (c for c in some if self._session.is_plain(c.graph, self._kinds(c)))
        return self._grouped({c.id: c.graph for c in plain})

    def _survey_from(self, operator: str) -> None:
        """Has the cases of an operator partitioned together, with those of the next ones if there are few:
        one survey of many graphs takes less time than several."""
        operators = self._session.operators
        found: list[Graph] = []
        for each in operators[operators.index(operator) :]:
            if each not in self._surveyed and len(found) < AT_ONCE:
                self._surveyed.add(each)
                found += (c.graph for c in self.offloaded.cases(each) if self._runs(c.id))
        self._session.examiner.partitions.survey(found)

    def _alike_structures(self) -> dict[str, Group]:
        found = {}
        for name in filter(self._runs, STRUCTURES):
            # A structure that cannot be built must not affect the others: its own test reports the
            # reason.
            with suppress(Exception):
                found[name] = self._structure(name)
        return self._grouped(found)

    def _alike_among_others(self, kind: str, make: _Make) -> dict[str, Group]:
        found = {}
        for operator in self.offloaded.operators():
            case = f"{kind}[{operator}]"
            # As for structures, the operator's own test reports an error.
            with suppress(Exception):
                graph = make(operator) if self._runs(case) else None
                if graph is not None:
                    found[case] = graph
        return self._grouped(found)

    def _alike_patterns(self, names: Sequence[str]) -> dict[str, Group]:
        """Returns the groups of the graphs of several patterns. Near misses come after the matches
        of all patterns, since TVM itself may fail to build them."""
        level, plain = self._session.settings.level, self._session.is_plain
        each = [self._of_pattern(name) for name in names if self._runs(f"{name}[")]
        found = [g for graphs in each for g in graphs[: level.ways]]
        found += [g for graphs in each for g in graphs if g not in found]
        return self._grouped({case: graph for case, graph, kinds in found if plain(graph, kinds)})

    def _grouped(self, graphs: Mapping[str, Graph]) -> dict[str, Group]:
        return batching.of_cases(graphs, self._session.examiner.partitions, self._session.ir)


def with_operator(case: Case, operators: Sequence[str]) -> Sequence[str]:
    """Returns the operators, of those that are tested, whose cases are grouped with this one:
    _OPERATORS of them for an early case, otherwise only its own."""
    at = operators.index(case.operator)
    at, number = (at // _OPERATORS * _OPERATORS, _OPERATORS) if case.early else (at, 1)
    return operators[at : at + number]


def with_pattern(name: str, names: Sequence[str], few: bool) -> Sequence[str]:
    """Returns the patterns, of all the target's, whose graphs are grouped with those of this one.

    few: whether the level has few graphs for each pattern."""
    at = names.index(name) // _PATTERNS * _PATTERNS
    return names[at : at + _PATTERNS] if few else [name]
