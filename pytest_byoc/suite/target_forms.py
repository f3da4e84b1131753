"""Determines the forms in which a target offloads operators whose simplest case it refuses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..core.graph import Graph
from ..examination.partitions import Partition
from ..generation import systematic
from ..generation.adapting import (
    LAST,
    Demand,
    Form,
    adapted,
    demands,
    forms,
    joined,
    keeps_operands,
    with_attributes,
)
from ..generation.single import default_type
from ..generation.systematic import Case, default_case
from ..operators import OPERATORS, within

if TYPE_CHECKING:
    from .session import TargetSession

#: Operators that are tried in every form: a target mostly needs the same form of all its operators.
_COMMON = (
    "nn.relu", "add", "multiply", "nn.conv2d", "nn.dense", "nn.max_pool2d", "nn.softmax", "concatenate",
)


class TargetForms:
    """The forms in which the target of a session offloads its operators."""

    def __init__(self, session: TargetSession) -> None:
        self._session = session
        #: The default cases that the target refuses, by operator; None if no operator that was asked
        #: for is refused yet.
        self._refusals: dict[str, Graph] | None = None
        #: The form in which the target offloads a default case that it refuses as it is, by operator.
        self._forms: dict[str, Form] = {}
        #: The attributes that the target demands of operators that it offloads in none of the forms,
        #: and those of them that can be set in any graph.
        self._demands: dict[str, Demand] = {}
        self._anywhere: dict[str, Demand] = {}
        #: The graphs of cases made with the demanded attributes, by operator and id.
        self._demanded_cases: dict[str, dict[str, Graph]] = {}
        #: The operators for which all of this is known.
        self._known: set[str] = set()

    def of(self, operator: str) -> Form:
        """Returns the form in which the target offloads the operator's default case: () if it
        offloads the case unchanged, or in no form."""
        if operator in self._session.operators and operator not in self._known:
            self.look_at([operator])
            self._known.add(operator)
            if operator in (self._refusals or {}) and operator not in self._forms:
                self._look_closer(operator)
        return self._forms.get(operator, ())

    def look_at(self, operators: Iterable[str]) -> None:
        """Has the graphs partitioned together that `of` asks for operator by operator."""
        tested = set(self._session.operators)
        new = [n for n in operators if n in tested and n not in self._known]
        if self._refusals is None and self._refused(new):
            self._determine()
        refused = [n for n in new if n in (self._refusals or {}) and n not in self._forms]
        self._session.examiner.partitions.survey(c.graph for c in self._smallest(refused))

    def is_restricted(self, operator: str) -> bool:
        """Returns whether the target offloads the operator's default case only in another form, or with
        other attributes."""
        return bool(self.of(operator)) or operator in self._demands

    def adapted(self, graph: Graph) -> Graph | None:
        """Returns the graph in the form in which its operators are offloaded; None if it needs no
        change or cannot be adapted."""
        form = joined(map(self.of, graph.operators))
        found = adapted(graph, form, self._session.ir) if form else None
        return with_attributes(self._anywhere, found or graph) or found

    def of_case(self, case: Case) -> Graph | None:
        """Returns the case's graph in the form in which its operator is offloaded; None if it needs no
        change or cannot be adapted."""
        name = case.operator
        if self.of(name) or name not in self._demands:
            return self.adapted(case.graph)
        if name not in self._demanded_cases:
            values = self._demands[name].demanded
            self._demanded_cases[name] = systematic.preferring(name, self._session.ir, values)
        return self._demanded_cases[name].get(case.id)

    def _refused(self, operators: Iterable[str]) -> dict[str, Graph]:
        """Returns the default cases that the target does not offload, by operator."""
        ir = self._session.ir
        known = [n for n in operators if ir in OPERATORS[n].irs()]
        found = {n: default_case(n, OPERATORS[n].dtypes[0], ir).graph for n in known}
        partitions = self._session.examiner.partitions.survey(found.values())
        return {n: graph for (n, graph), p in zip(found.items(), partitions) if not is_offloaded(p)}

    def _determine(self) -> None:
        """Determines the refused default cases, and the forms in which the target offloads them. Common
        operators are tried in every form, the others with channels last and in the forms found for
        the common ones."""
        tested = self._session.operators
        refused = self._refusals = self._refused(tested)
        common = [n for n in _COMMON if n in tested] or tested[: len(_COMMON)]
        self._forms = self._first_form({n: refused[n] for n in common if n in refused}, list(forms()))
        likely = list(dict.fromkeys((*self._forms.values(), LAST)))
        self._forms |= self._first_form({n: g for n, g in refused.items() if n not in self._forms}, likely)
        for form in dict.fromkeys(self._forms.values()):
            self._note(", ".join(n for n in tested if self._forms.get(n) == form), form)

    def _smallest(self, operators: Sequence[str]) -> list[Case]:
        return [c for c in systematic.cases(operators, self._session.ir) if c.smoke]

    def _note(self, names: str, form: Form) -> None:
        self._session.record.not_checked.append(
            f"{names}: the target offloads them only with {', '.join(form)}; all their graphs except the "
            "simplest case are adapted to that"
        )

    def _look_closer(self, operator: str) -> None:
        """Determines what the target demands of an operator whose default case it refuses in all likely
        forms: if it offloads other cases of level smoke, any form, or attributes."""
        assert self._refusals is not None
        ir, simplest = self._session.ir, self._refusals[operator]
        tried = [c.graph for c in self._smallest([operator])]
        partitions = self._session.examiner.partitions.survey(tried)
        nodes = [g.nodes[0] for g, p in zip(tried, partitions) if p and all(p.offloaded)]
        if not nodes:
            return
        found = self._first_form({operator: simplest}, list(forms()))
        if found:
            self._forms |= found
            self._note(operator, found[operator])
            return
        made = {one: with_attributes({operator: one}, simplest) for one in demands(simplest.nodes[0], nodes)}
        possible = {one: graph for one, graph in made.items() if graph is not None}
        partitions = self._session.examiner.partitions.survey(possible.values())
        first = next((one for one, p in zip(possible, partitions) if p and all(p.offloaded)), None)
        if first is None:
            return
        self._demands[operator] = first
        op = within(operator, ir)
        if keeps_operands(op, default_type(op, op.dtypes[0]), first):
            self._anywhere[operator] = first
        self._session.record.not_checked.append(
            f"{operator}: the target offloads it only with {first}; all its systematic cases except the "
            "simplest one are adapted to that"
        )

    def _first_form(self, graphs: Mapping[str, Graph], tried: Iterable[Form]) -> dict[str, Form]:
        """Returns the first of the forms in which the target offloads all of a graph, by operator.
        Operators without such a form are left out."""
        found: dict[str, Form] = {}
        for form in tried:
            left = {n: adapted(g, form, self._session.ir) for n, g in graphs.items() if n not in found}
            in_form = {n: g for n, g in left.items() if g is not None}
            partitions = self._session.examiner.partitions.survey(in_form.values())
            found.update((n, form) for n, p in zip(in_form, partitions) if p and all(p.offloaded))
        return found


def is_offloaded(partition: Partition | None) -> bool:
    # A graph whose partitioning fails counts as offloaded, so that its test reports the failure.
    return partition is None or any(partition.offloaded)
