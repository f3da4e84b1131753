"""Determines which graphs a target offloads, by partitioning only, which takes milliseconds a
graph."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ..core.graph import Graph, TensorType
from ..examination.partitions import PARTITIONING
from ..generation import systematic, without_llvm
from ..generation.adapting import lead
from ..generation.enlarging import enlarged
from ..generation.neighbours import between
from ..generation.structures import Vocabulary
from ..generation.systematic import Case, default_case
from ..operators import OPERATORS
from .region_search import RegionSearch
from .target_forms import TargetForms, is_offloaded

if TYPE_CHECKING:
    from .session import TargetSession

_Kind = TypeVar("_Kind")


class Offloaded:
    """The operators that the target of a session offloads, and graphs made of them."""

    def __init__(self, session: TargetSession) -> None:
        self._session = session
        self._operators: dict[str, list[str]] | None = None
        #: The id of the first systematic case that the target offloads, or None, by operator.
        self._first_of: dict[str, str | None] = {}
        self._forms = TargetForms(session)
        #: The graphs in which the target offloads an operator in a region with others.
        self.regions = RegionSearch(self._among_others, lambda some: session.examiner.partitions.survey(some))

    def operators(self) -> dict[str, list[str]]:
        """Returns the operators with a systematic case of the level that the target offloads, and
        the dtypes of those cases' first operands."""
        if self._operators is None:
            found = self.cases()
            kinds: dict[tuple[str, str], list[int]] = {}
            for number, case in enumerate(found):
                dtype = case.graph.type_of(case.graph.nodes[0].inputs[0]).dtype
                kinds.setdefault((case.operator, dtype), []).append(number)
            with self._session.activity.during(PARTITIONING):
                by_kind = {kind: [found[n] for n in numbers] for kind, numbers in kinds.items()}
                first = self._first_offloaded(by_kind)
            self._operators = {}
            for operator, dtype in sorted(first, key=lambda kind: kinds[kind][first[kind]]):
                self._operators.setdefault(operator, []).append(dtype)
            # The objects made since the session opened stay until its end, too.
            gc.freeze()
        return self._operators

    def cases(self, *operators: str) -> list[Case]:
        """Returns the systematic cases of the level for some operators, or for all tested ones."""
        settings = self._session.settings
        names, ir = operators or self._session.operators, self._session.ir
        self._forms.look_at(names)
        found = [*systematic.cases(names, ir), *without_llvm.cases(names, ir)]
        return self._of_target([c for c in found if settings.level.all_cases or c.smoke])

    def adapted(self, *graphs: Graph) -> list[Graph]:
        """Returns the graphs adapted to the forms in which the target offloads their operators, for
        example with batches of one. A graph of which the target then offloads no more nodes stays
        unchanged."""
        return self._better({graph: self._forms.adapted(graph) for graph in graphs}, graphs)

    def enlarged(self, graph: Graph) -> Graph:
        """Returns the graph with tensors as large as those of models, if the target offloads as many
        of its nodes then."""
        found = list(enlarged(graph))
        own, *partitions = self._session.examiner.partitions.survey([graph, *found])
        least = sum(own.offloaded) if own else 0
        fits = (g for g, p in zip(found, partitions) if p and sum(p.offloaded) >= least)
        return next(fits, graph)

    def _better(self, other: Mapping[Graph, Graph | None], graphs: Sequence[Graph]) -> list[Graph]:
        """Returns the graphs, and in place of each the other one if the target offloads more of that."""
        made = {graph: found for graph, found in other.items() if found is not None}
        partitions = self._session.examiner.partitions.survey([*made, *made.values()])
        more = {
            graph for graph, as_it_is, then in zip(made, partitions, partitions[len(made) :])
            if as_it_is and then and sum(then.offloaded) > sum(as_it_is.offloaded)
        }
        return [made[graph] if graph in more else graph for graph in graphs]

    def fit(self, operator: str) -> Callable[[TensorType], TensorType]:
        """Returns a function that adapts the type of a first operand to the form in which the
        target offloads the operator."""
        return partial(lead, form=self._forms.of(operator))

    def of_target(self, case: Case) -> Case:
        (adapted,) = self._of_target([case])
        return adapted

    def _of_target(self, cases: Sequence[Case]) -> list[Case]:
        """Returns the cases adapted to the target's forms, except the simplest case of each
        operator and the cases that LLVM cannot judge."""
        some = [c for c in cases if not (c.simplest or c.without_llvm)]
        left = iter(self._better({c.graph: self._forms.of_case(c) for c in some}, [c.graph for c in some]))
        return [c if c.simplest or c.without_llvm else _with(c, next(left)) for c in cases]

    def vocabulary(self) -> Vocabulary:
        """Returns the operators to build structures from, by whether the target offloads the
        default case of each."""
        ir = self._session.ir
        defaults = {
            name: default_case(name, "float32", ir).graph
            for name in self._session.operators
            if ir in OPERATORS[name].irs() and "float32" in OPERATORS[name].dtypes
        }
        partitions = self._session.examiner.partitions.survey(defaults.values())
        offloaded = frozenset(n for n, c in zip(defaults, partitions) if is_offloaded(c))
        tested = frozenset(self._session.operators)
        self._forms.look_at(defaults)
        adapted = frozenset(n for n in defaults if self._forms.is_restricted(n))
        if adapted:
            # Some default cases cannot be adapted, for example a split along the batch.
            adapted |= set(self.operators())
        alone = [graph for name, graph in defaults.items() if name in offloaded | adapted]
        return Vocabulary(offloaded | adapted, tested, partial(self._parts, alone))

    def _parts(self, alone: Sequence[Graph]) -> list[Graph]:
        """Returns the graphs of one operator, adapted to the target's forms, and the smallest
        fragment of each pattern that contains other operators."""
        known = {operator for graph in alone for operator in graph.operators}
        patterns = [g for g in self._session.patterns.fragments() if not known.issuperset(g.operators)]
        return [*self.adapted(*alone), *patterns]

    def drawn(self) -> list[str]:
        """Returns the operators of random graphs. Left out are operators that the target does not
        offload and TVM's runtime library cannot run, since no graph with them passes."""
        lacking = self._session.examiner.workers.host_lacks - set(self.operators())
        found = [o for o in self._session.operators if o not in lacking]
        left = sorted(lacking.intersection(self._session.operators))
        text = (
            f"random graphs with {', '.join(left)}: the target does not offload these operators, and TVM's "
            "runtime library cannot run them"
        )
        if left and text not in self._session.record.not_checked:
            self._session.record.not_checked.append(text)
        return found

    def parts_with(self, operator: str) -> list[Graph]:
        """Returns the smallest fragments of the target's patterns that contain the operator."""
        return [g for g in self._session.patterns.fragments() if operator in g.operators]

    def _among_others(self, operator: str) -> list[Graph]:
        """Returns graphs in which the target may offload the operator together with others: fragments
        with it, and graphs of the operator between others that the target offloads."""
        offloaded = self.operators()
        found = self.parts_with(operator)
        for dtype in offloaded[operator][:2]:
            found += self.adapted(*between(operator, dtype, list(offloaded), self._session.ir))
        return found

    def first_case(self, name: str) -> str | None:
        """Returns the id of the operator's first systematic case that the target offloads; None if
        it offloads none."""
        if name not in self._first_of:
            found = self.cases(name)
            first = self._first_offloaded({name: found})
            self._first_of[name] = found[first[name]].id if first else None
        return self._first_of[name]

    def is_first(self, case: Case) -> bool:
        """Returns whether the case is its operator's first that the target offloads. No later case
        is partitioned to decide this."""
        name = case.operator
        if name not in self._first_of and is_offloaded(self._session.examiner.partitions.of(case.graph)):
            found = self.cases(name)
            first = self._first_offloaded({name: found[: [c.id for c in found].index(case.id) + 1]})
            self._first_of[name] = found[first[name]].id
        return self._first_of.get(name) == case.id

    def _first_offloaded(self, found: Mapping[_Kind, Sequence[Case]]) -> dict[_Kind, int]:
        """Returns the position of the first case that the target offloads, by kind. Kinds of which
        it offloads no case are left out. Cases are partitioned in batches of growing size, since
        mostly the very first is offloaded."""
        first: dict[_Kind, int] = {}
        begin, end, longest = 0, 1, max(map(len, found.values()), default=0)
        while begin < longest:
            tried = [
                (kind, at, case) for kind, of_kind in found.items() if kind not in first
                for at, case in enumerate(of_kind[begin:end], begin)
            ]
            partitions = self._session.examiner.partitions.survey(case.graph for _, _, case in tried)
            for (kind, at, _), partition in zip(tried, partitions):
                if is_offloaded(partition):
                    first.setdefault(kind, at)
            begin, end = end, 8 * end
        return first


def _with(case: Case, graph: Graph) -> Case:
    return case if graph is case.graph else replace(case, graph=graph)
