"""Finds out why operators of a model are left to TVM, and names what stood in the way.

All is asked of the target by partitioning small graphs: the operator alone, in its simplest case in each
dtype, with one thing changed, and with one of its neighbours in the model. Nothing is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from ..core.graph import Graph, Node
from ..examination.partitions import Partition
from ..generation.single_changes import changes, lead_type, obstacles_alone
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


def reasons(survey: Survey, ir: str, imported: Imported, left: Sequence[int]) -> dict[int, Reason]:
    """Returns for each operator of a model that is left to TVM, by its position, why it is."""
    return _Search(survey, ir, imported).reasons(left)


class _Search:
    def __init__(self, survey: Survey, ir: str, imported: Imported) -> None:
        self._survey = survey
        self._ir = ir
        self._imported = imported
        self._dtypes: dict[str, tuple[str, ...]] = {}
        self._known: dict[bytes, Reason] = {}
        self._makers = {name: n for n, node in enumerate(imported.graph.nodes) for name in node.outputs}

    def reasons(self, left: Sequence[int]) -> dict[int, Reason]:
        own = {p: some(self._imported, {p}) for p in left if p not in self._imported.functions}
        alone = dict(zip(own, self._partitions([*own.values()])))
        found: dict[int, Reason] = {}
        for position in left:
            if position in self._imported.functions:
                found[position] = Reason(FUNCTION)
                continue
            graph, partition = own[position], alone[position]
            if partition is not None and partition.regions:
                around = some(self._imported, {position, *self._around(position)})
                found[position] = self._once(form(around) + b"place", partial(self._place, position))
            else:
                found[position] = self._once(form(graph), partial(self._alone, graph))
        return found

    def _once(self, key: bytes, find: Callable[[], Reason]) -> Reason:
        """Returns the reason of operators that are alike, which is found for the first of them."""
        if key not in self._known:
            self._known[key] = find()
        return self._known[key]

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

    def _offloaded(self, graphs: Sequence[Graph]) -> list[bool]:
        return [p is not None and p.regions > 0 for p in self._partitions(graphs)]

    # --- an operator that is not offloaded alone -------------------------------------------------

    def _alone(self, graph: Graph) -> Reason:
        (node,) = graph.nodes
        takes = self._takes(node.op)
        if not takes:
            return Reason(OPERATOR)
        dtype = lead_type(graph, self._ir).dtype
        if dtype not in takes:
            return Reason(DTYPE, f"{dtype}; the target takes {', '.join(takes)}")
        return Reason(FORM, self._form(graph) if len(self._known) < _FORMS else "")

    def _takes(self, op: str) -> tuple[str, ...]:
        """Returns the dtypes in which the target offloads an operator's simplest case."""
        if op not in self._dtypes:
            dtypes = OPERATORS[op].dtypes
            usual = self._offloaded([default_case(op, dtype, self._ir).graph for dtype in dtypes])
            self._dtypes[op] = tuple(dtype for dtype, offloaded in zip(dtypes, usual) if offloaded)
        return self._dtypes[op]

    def _form(self, graph: Graph) -> str:
        """Returns the one thing without which the target would offload a graph of one operator; or else all
        that it does not offload in the operator's simplest case."""
        tried = [c for c in changes(graph, self._ir) if _held(c.graph) <= _LARGE]
        offloaded = self._offloaded([c.graph for c in tried])
        for change, yes in zip(tried, offloaded):
            if yes:
                return change.what
        tried = [c for c in obstacles_alone(graph, self._ir) if _held(c.graph) <= _LARGE]
        offloaded = self._offloaded([c.graph for c in tried])
        several = [change.what for change, yes in zip(tried, offloaded) if not yes]
        if several:
            return f"each of {', '.join(several)}" if several[1:] else f"{several[0]}, and not that alone"
        return "no single change of it is offloaded"

    # --- an operator that is offloaded alone -----------------------------------------------------

    def _place(self, position: int) -> Reason:
        if len(self._known) >= _FORMS:
            return Reason(PLACE)
        around = [*self._around(position)]
        each = [{position, other} for other in around]
        together = [{position, *around}] if len(around) > 1 else []
        graphs = [some(self._imported, positions) for positions in (*each, *together)]
        inside = [
            partition is None or partition.offloaded[sorted(positions).index(position)]
            for positions, partition in zip((*each, *together), self._partitions(graphs))
        ]
        for other, offloaded in zip(around, inside):
            if not offloaded:
                return Reason(PLACE, self._beside(position, other))
        if together and not inside[-1]:
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


def _alike(node: Node, other: Node) -> bool:
    return node.op == other.op and node.types == other.types


def _held(graph: Graph) -> int:
    """Returns the number of elements of a graph's constants."""
    return sum(s.type.size for s in graph.constants)
