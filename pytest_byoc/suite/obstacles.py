"""Finds out why operators of a model are left to TVM, and names what stood in the way.

All is asked of the target by partitioning small graphs: the operator alone, in its simplest case in each
dtype, with one thing changed, and with one of its neighbours in the model. Nothing is built.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from ..core.graph import Graph, Node
from ..examination.partitions import Partition
from ..generation.single_changes import Change, changes, lead_type, one_attribute, simplest
from ..generation.systematic import default_case
from ..operators import OPERATORS
from .model_graphs import form, some
from .model_import import Imported

#: Why an operator of a model is not offloaded.
OPERATOR = "the target offloads it in no graph of its own"
DTYPE = "not in this dtype"
FORM = "not with these attributes or shapes"
PLACE = "offloaded alone, but not here"
FUNCTION = "TVM's frontend has made a function of TIR of it"

#: Partitions graphs, as `Partitions.survey` does.
Survey = Callable[[Sequence[Graph]], Sequence["Partition | None"]]
#: The most forms of operators in a model for which obstacles are looked for, and the most neighbours of each.
_FORMS, _NEIGHBOURS = 100, 4
#: The most elements of the constants of a graph that is changed, and of graphs that are partitioned together.
_LARGE = 1 << 24


class Reason(NamedTuple):
    """Why an operator is left to TVM. obstacle: what stood in the way, by name; "" if it is not known."""

    why: str
    obstacle: str = ""


#: A search for a reason: it yields graphs, and is sent the partition of each.
_Search = Generator[Sequence[Graph], Any, Reason]


def reasons(survey: Survey, ir: str, imported: Imported, left: Sequence[int]) -> dict[int, Reason]:
    """Returns for operators of a model that are left to TVM, by their positions, why they are.

    Of more than _FORMS kinds of operators some are missing.
    """
    return _Searches(survey, ir, imported).reasons(left)


class _Searches:
    """The searches for the reasons of all operators of a model. What they ask of the target in one step is
    asked together."""

    def __init__(self, survey: Survey, ir: str, imported: Imported) -> None:
        self._survey = survey
        self._ir = ir
        self._imported = imported
        self._makers = {name: n for n, node in enumerate(imported.graph.nodes) for name in node.outputs}

    def reasons(self, left: Sequence[int]) -> dict[int, Reason]:
        found = {p: Reason(FUNCTION) for p in left if p in self._imported.functions}
        own = {p: some(self._imported, {p}) for p in left if p not in found}
        keys: dict[int, bytes] = {}
        searches: dict[bytes, _Search] = {}
        for (position, graph), partition in zip(own.items(), self._partitions([*own.values()])):
            if partition is not None and partition.regions:
                around = some(self._imported, {position, *self._around(position)})
                key, search = form(around) + b"place", self._place(position)
            else:
                key, search = form(graph), self._alone(graph)
            # Operators that are alike have the same reason, which is found for the first of them.
            keys[position] = key
            searches.setdefault(key, search)
        by_key = self._together(dict(islice(searches.items(), _FORMS)))
        return {**found, **{p: by_key[key] for p, key in keys.items() if key in by_key}}

    def _together(self, searches: Mapping[bytes, _Search]) -> dict[bytes, Reason]:
        """Returns the results of searches."""
        found: dict[bytes, Reason] = {}
        asked: dict[bytes, Sequence[Graph]] = {key: [] for key in searches}
        answers: dict[bytes, list[Partition | None] | None] = dict.fromkeys(searches)
        while asked:
            for key in [*asked]:
                try:
                    asked[key] = searches[key].send(answers[key])
                except StopIteration as e:
                    found[key] = e.value
                    del asked[key]
            all_answers = iter(self._partitions([graph for graphs in asked.values() for graph in graphs]))
            answers = {key: [*islice(all_answers, len(graphs))] for key, graphs in asked.items()}
        return found

    def _partitions(self, graphs: Sequence[Graph]) -> list[Partition | None]:
        """Returns the partition of each graph; few with large constants are partitioned together."""
        found: list[Partition | None] = []
        group: list[Graph] = []
        for graph in graphs:
            if group and sum(map(_held, group)) + _held(graph) > _LARGE:
                found += self._survey(group)
                group = []
            group.append(graph)
        return found + list(self._survey(group)) if group else found

    # --- an operator that is not offloaded alone -------------------------------------------------

    def _alone(self, graph: Graph) -> _Search:
        (node,) = graph.nodes
        dtypes = OPERATORS[node.op].dtypes
        usual = yield [default_case(node.op, dtype, self._ir).graph for dtype in dtypes]
        takes = [dtype for dtype, partition in zip(dtypes, usual) if _offloaded(partition)]
        if not takes:
            return Reason(OPERATOR)
        dtype = lead_type(graph, self._ir).dtype
        if dtype not in takes:
            return Reason(DTYPE, f"{dtype}; the target takes {', '.join(takes)}")
        return Reason(FORM, (yield from self._obstacle(graph)))

    def _obstacle(self, graph: Graph) -> Generator[Sequence[Graph], Any, str]:
        """Returns the one thing without which the target would offload a graph of one operator; or else all
        that it does not offload in the operator's simplest case."""
        tried = yield from _tried(changes(graph, self._ir))
        for change, offloaded in tried:
            if offloaded:
                return change.what
        usual = simplest(graph, self._ir)
        tried = yield from _tried([usual] if usual else [])
        several = [change.what for change, offloaded in tried if not offloaded]
        own_type = bool(tried) and not several
        tried = yield from _tried(one_attribute(graph, self._ir, own_type))
        several += [change.what for change, offloaded in tried if not offloaded]
        if several:
            return f"each of {', '.join(several)}" if several[1:] else f"{several[0]}, and not that alone"
        return "no single change of it is offloaded"

    # --- an operator that is offloaded alone -----------------------------------------------------

    def _place(self, position: int) -> _Search:
        around = [*self._around(position)]
        groups = [{position, other} for other in around]
        if len(around) > 1:
            groups.append({position, *around})
        partitions = yield [some(self._imported, positions) for positions in groups]
        inside = [
            partition is None or partition.offloaded[sorted(positions).index(position)]
            for positions, partition in zip(groups, partitions)
        ]
        for other, offloaded in zip(around, inside):
            if not offloaded:
                return Reason(PLACE, self._beside(position, other))
        if inside and not inside[-1]:
            names = dict.fromkeys(self._imported.graph.nodes[other].op for other in around)
            return Reason(PLACE, f"not between {', '.join(names)}")
        return Reason(PLACE)

    def _around(self, position: int) -> Iterator[int]:
        """Yields operators that make the operands of an operator or read its results, by their positions, if
        they can be told from it."""
        nodes = self._imported.graph.nodes
        node = nodes[position]
        makers = dict.fromkeys(self._makers[name] for name in node.inputs if name in self._makers)
        readers = [n for n, other in enumerate(nodes) if not set(node.outputs).isdisjoint(other.inputs)]
        functions = self._imported.functions
        for near in ([*makers], readers):
            yield from [n for n in near if n not in functions and not _alike(nodes[n], node)][:_NEIGHBOURS]

    def _beside(self, position: int, other: int) -> str:
        node, near = self._imported.graph.nodes[position], self._imported.graph.nodes[other]
        for operand, name in enumerate(node.inputs):
            if name in near.outputs:
                return f"not where {near.op} makes operand {operand}"
        return f"not where {near.op} reads its result"


def _offloaded(partition: Partition | None) -> bool:
    return partition is not None and partition.regions > 0


def _tried(some_changes: Iterable[Change]) -> Generator[Sequence[Graph], Any, list[tuple[Change, bool]]]:
    """Returns changes with whether the target offloads the graph; those of large constants are left out."""
    small = [change for change in some_changes if _held(change.graph) <= _LARGE]
    partitions = yield [change.graph for change in small]
    return [(change, _offloaded(partition)) for change, partition in zip(small, partitions)]


def _alike(node: Node, other: Node) -> bool:
    return node.op == other.op and node.types == other.types


def _held(graph: Graph) -> int:
    """Returns the number of elements of a graph's constants."""
    return sum(s.type.size for s in graph.constants)
