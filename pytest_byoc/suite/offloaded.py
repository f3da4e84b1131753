"""What a target takes: found out by partitioning alone, which costs milliseconds."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ..core.graph import Graph, TensorType
from ..examination.claims import PARTITIONING, Claim
from ..generation import beyond, systematic
from ..generation.adapting import LAST, Form, adapted, forms, joined, lead
from ..generation.neighbours import between
from ..generation.structures import Vocabulary
from ..generation.systematic import Case, default_case
from ..operators import OPERATORS

if TYPE_CHECKING:
    from .session import TargetSession

#: Graphs partitioned at once in the search for a region: the first few are often enough.
_AT_ONCE = 6
#: Operators that are tried in any form: what a target wants of one it mostly wants of all.
_COMMON = (
    "nn.relu", "add", "multiply", "nn.conv2d", "nn.dense", "nn.max_pool2d", "nn.softmax", "concatenate",
)
_Kind = TypeVar("_Kind")


class Offloaded:
    """What the target of a session offloads, and graphs that are made of it."""

    def __init__(self, session: TargetSession) -> None:
        self._session = session
        self._claimed: dict[str, list[str]] | None = None
        #: Of each operator the first systematic case that the target takes, if there is one.
        self._first_of: dict[str, str | None] = {}
        #: Of each operator that was asked about: in which form the target takes its default case.
        self._forms: dict[str, Form] = {}

    def operators(self) -> dict[str, list[str]]:
        """Operators of which the target takes at least one systematic case of the level, and their dtypes."""
        if self._claimed is None:
            found = self.cases()
            kinds: dict[tuple[str, str], list[int]] = {}
            for number, case in enumerate(found):
                dtype = case.graph.type_of(case.graph.nodes[0].inputs[0]).dtype
                kinds.setdefault((case.operator, dtype), []).append(number)
            with self._session.activity.during(PARTITIONING):
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
        names, ir = operators or self._session.operators, self._session.ir
        found = [*systematic.cases(names, ir), *beyond.cases(names, ir)]
        return self._of_target([c for c in found if settings.level.all_cases or c.smoke])

    def _form(self, operator: str) -> Form:
        """The form in which the target takes the operator's default case; none where it takes it as it is,
        and where it takes it in no form."""
        if operator not in self._forms:
            if self._refused([operator]):
                self._ask()
            self._forms.setdefault(operator, ())
        return self._forms[operator]

    def _refused(self, operators: Iterable[str]) -> dict[str, Graph]:
        """Those of the operators whose default case the target does not take, with it."""
        ir = self._session.ir
        known = [n for n in operators if ir in OPERATORS[n].irs()]
        found = {n: default_case(n, OPERATORS[n].dtypes[0], ir).graph for n in known}
        claims = self._session.examiner.claims.survey(found.values())
        return {n: graph for (n, graph), claim in zip(found.items(), claims) if not _takes(claim)}

    def _ask(self) -> None:
        """Finds out in which forms the target takes the operators that it does not take as they are: of a few
        common ones in any, of the others in those that were found, and with channels last."""
        asked = self._session.operators
        refused = self._refused(asked)
        common = [n for n in _COMMON if n in asked] or asked[: len(_COMMON)]
        found = self._first_form({n: refused[n] for n in common if n in refused}, list(forms()))
        likely = list(dict.fromkeys((*found.values(), LAST)))
        found |= self._first_form({n: g for n, g in refused.items() if n not in found}, likely)
        self._forms = {n: found.get(n, ()) for n in asked}
        for form in dict.fromkeys(found.values()):
            names = ", ".join(n for n in asked if self._forms[n] == form)
            self._session.record.not_checked.append(
                f"{names}: the target takes {', '.join(form)} alone, so that all their graphs but the "
                "simplest case are made so"
            )

    def _first_form(self, graphs: Mapping[str, Graph], tried: Iterable[Form]) -> dict[str, Form]:
        """By operator, the first of the forms in which the target takes its graph, if there is one."""
        found: dict[str, Form] = {}
        for form in tried:
            left = {n: adapted(g, form, self._session.ir) for n, g in graphs.items() if n not in found}
            made = {n: g for n, g in left.items() if g is not None}
            claims = self._session.examiner.claims.survey(made.values())
            found.update((n, form) for n, claim in zip(made, claims) if claim and all(claim.offloaded))
        return found

    def adapted(self, *graphs: Graph) -> list[Graph]:
        """The graphs as the target may take them: of batches of one, say, if it takes no others. One of which
        it takes no more then stays as it is."""
        made = {graph: other for graph in graphs if (other := self._in_form(graph)) is not None}
        claims = self._session.examiner.claims.survey([*made, *made.values()])
        more = {
            graph for graph, as_it_is, then in zip(made, claims, claims[len(made) :])
            if as_it_is and then and sum(then.offloaded) > sum(as_it_is.offloaded)
        }
        return [made[graph] if graph in more else graph for graph in graphs]

    def _in_form(self, graph: Graph) -> Graph | None:
        """The graph in the form in which its operators are taken; None where that is its own."""
        form = joined(map(self._form, graph.operators))
        return adapted(graph, form, self._session.ir) if form else None

    def fit(self, operator: str) -> Callable[[TensorType], TensorType]:
        """What makes the type of a first operand in the form in which the target takes the operator."""
        return partial(lead, form=self._form(operator))

    def of_target(self, case: Case) -> Case:
        (adapted,) = self._of_target([case])
        return adapted

    def _of_target(self, cases: Sequence[Case]) -> list[Case]:
        """The cases as the target may take them, but for the simplest of each operator."""
        found = self.adapted(*(c.graph for c in cases if not (c.simplest or c.without_llvm)))
        left = iter(found)
        return [c if c.simplest or c.without_llvm else _with(c, next(left)) for c in cases]

    def vocabulary(self) -> Vocabulary:
        """Operators to build structures from, by what the target claims of each one's default case."""
        ir = self._session.ir
        defaults = {
            name: default_case(name, "float32", ir).graph
            for name in self._session.operators
            if ir in OPERATORS[name].irs() and "float32" in OPERATORS[name].dtypes
        }
        claims = self._session.examiner.claims.survey(defaults.values())
        taken = frozenset(n for n, c in zip(defaults, claims) if _takes(c))
        asked = frozenset(self._session.operators)
        adapted = frozenset(n for n in defaults if self._form(n))
        if adapted:
            # Some defaults have no such form: what is split along the batch, say.
            adapted |= set(self.operators())
        alone = [graph for name, graph in defaults.items() if name in taken | adapted]
        return Vocabulary(taken | adapted, asked, partial(self._parts, alone))

    def _parts(self, alone: Sequence[Graph]) -> list[Graph]:
        """Graphs of one operator as the target takes them, and of each pattern that holds others the smallest
        graph."""
        known = {operator for graph in alone for operator in graph.operators}
        patterns = [g for g in self._session.patterns.fragments() if not known.issuperset(g.operators)]
        return [*self.adapted(*alone), *patterns]

    def drawn(self) -> list[str]:
        """Operators that random graphs are made of: no graph passes in which TVM would have to run what its
        runtime library lacks."""
        lacking = self._session.examiner.workers.host_lacks - set(self.operators())
        found = [o for o in self._session.operators if o not in lacking]
        left = sorted(lacking.intersection(self._session.operators))
        text = f"random graphs with {', '.join(left)}: TVM is left to run them, and its runtime library can't"
        if left and text not in self._session.record.not_checked:
            self._session.record.not_checked.append(text)
        return found

    def parts_with(self, operator: str) -> list[Graph]:
        """Graphs of the target's patterns that hold an operator."""
        return [g for g in self._session.patterns.fragments() if operator in g.operators]

    def in_region(self, operator: str) -> Graph | None:
        """A graph in which the target takes the operator in one region with others: the largest found, of
        its patterns' graphs and of its neighbours among what the target takes; None where there is none."""
        claimed = self.operators()
        found = self.parts_with(operator)
        for dtype in claimed[operator][:2]:
            found += self.adapted(*between(operator, dtype, list(claimed), self._session.ir))
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

    def is_first(self, case: Case) -> bool:
        """Whether the case is the first of its operator that the target offloads. No case behind it is
        partitioned for that."""
        name = case.operator
        if name not in self._first_of and _takes(self._session.examiner.claims.of(case.graph)):
            found = self.cases(name)
            taken = self._first_taken({name: found[: [c.id for c in found].index(case.id) + 1]})
            self._first_of[name] = found[taken[name]].id
        return self._first_of.get(name) == case.id

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


def _with(case: Case, graph: Graph) -> Case:
    return case if graph is case.graph else replace(case, graph=graph)


def _takes(claim: Claim | None) -> bool:
    # Where partitioning fails the target has at least tried.
    return claim is None or any(claim.offloaded)
