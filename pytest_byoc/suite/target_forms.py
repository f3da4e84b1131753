"""Determines the forms in which a target offloads operators whose simplest case it refuses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..core.graph import Graph, Node
from ..generation import systematic
from ..generation.adapting import (
    LAST,
    Demand,
    Form,
    adapted,
    demands,
    forms,
    joined,
    stands_alone,
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
        #: The form in which the target offloads the default case, by operator; () for its usual
        #: form.
        self._forms: dict[str, Form] = {}
        #: The attributes that the target demands of operators that it offloads in none of the forms,
        #: and those of them that can be set in any graph.
        self._demands: dict[str, Demand] = {}
        self._anywhere: dict[str, Demand] = {}
        #: The graphs of cases made with the demanded attributes, by operator and id.
        self._demanded_cases: dict[str, dict[str, Graph]] = {}

    def of(self, operator: str) -> Form:
        """Returns the form in which the target offloads the operator's default case: () if it
        offloads the case unchanged, or in no form."""
        if operator not in self._forms:
            if self._refused([operator]):
                self._ask()
            self._forms.setdefault(operator, ())
        return self._forms[operator]

    def restrict(self, operator: str) -> bool:
        """Returns whether the target offloads the operator's default case in another form alone."""
        return bool(self.of(operator)) or operator in self._demands

    def adapted(self, graph: Graph) -> Graph | None:
        """Returns the graph in the form in which its operators are offloaded; None if it needs no
        change or cannot be adapted."""
        form = joined(map(self.of, graph.operators))
        found = adapted(graph, form, self._session.ir) if form else None
        return with_attributes(self._anywhere, found or graph) or found

    def of_case(self, case: Case) -> Graph | None:
        """Returns the case's graph in the form in which its operator is offloaded; None as above."""
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
        return {n: graph for (n, graph), p in zip(found.items(), partitions) if p and not any(p.offloaded)}

    def _ask(self) -> None:
        """Determines the forms in which the target offloads operators whose default case it does
        not offload unchanged. Common operators, and those of which it offloads other cases, are tried
        in every form, the others with channels last and in the forms found for the common ones."""
        tested = self._session.operators
        refused = self._refused(tested)
        common = [n for n in _COMMON if n in tested] or tested[: len(_COMMON)]
        found = self._first_form({n: refused[n] for n in common if n in refused}, list(forms()))
        likely = list(dict.fromkeys((*found.values(), LAST)))
        found |= self._first_form({n: g for n, g in refused.items() if n not in found}, likely)
        offloaded = self._offloaded([n for n in refused if n not in found])
        found |= self._first_form({n: refused[n] for n in offloaded}, list(forms()))
        self._forms = {n: found.get(n, ()) for n in tested}
        for form in dict.fromkeys(found.values()):
            names = ", ".join(n for n in tested if self._forms[n] == form)
            self._session.record.not_checked.append(
                f"{names}: the target offloads them only with {', '.join(form)}; all their graphs except the "
                "simplest case are adapted to that"
            )
        self._demands = self._demanded(refused, {n: g for n, g in offloaded.items() if n not in found})
        self._anywhere = {
            n: d for n, d in self._demands.items()
            if stands_alone(op := within(n, self._session.ir), default_type(op, op.dtypes[0]), d)
        }
        self._session.record.not_checked.extend(
            f"{name}: the target offloads it only with {demanded}; all its systematic cases except the "
            "simplest one are adapted to that"
            for name, demanded in self._demands.items()
        )

    def _offloaded(self, operators: Sequence[str]) -> dict[str, list[Node]]:
        """Returns the nodes of the cases of level smoke that the target offloads, by operator; those
        without any are left out."""
        tried = [c for c in systematic.cases(operators, self._session.ir) if c.smoke]
        offloaded: dict[str, list[Node]] = {}
        for case, partition in zip(tried, self._session.examiner.partitions.survey(c.graph for c in tried)):
            if partition and all(partition.offloaded):
                offloaded.setdefault(case.operator, []).append(case.graph.nodes[0])
        return offloaded

    def _demanded(
        self, refused: Mapping[str, Graph], offloaded: Mapping[str, Sequence[Node]]
    ) -> dict[str, Demand]:
        """Returns the attributes with which the target offloads default cases, by operator. refused: these
        cases. offloaded: the nodes of other cases that it offloads."""
        made = [
            (name, one, graph)
            for name, nodes in offloaded.items()
            for one in demands(refused[name].nodes[0], nodes)
            if (graph := with_attributes({name: one}, refused[name])) is not None
        ]
        found: dict[str, Demand] = {}
        partitions = self._session.examiner.partitions.survey(graph for _, _, graph in made)
        for (name, one, _), partition in zip(made, partitions):
            if partition and all(partition.offloaded):
                found.setdefault(name, one)
        return found

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
