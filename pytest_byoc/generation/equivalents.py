"""Rewrites a graph into others that compute the same: elements are moved and moved back, integers are
reassociated, the batch is computed in two parts.

None of the rewrites changes by which operations an element is computed, except that integers and
extremes, whose order does not matter, are combined in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.graph import Graph, Node, Source, TensorType
from ..operators import OPERATORS
from ..operators.record import FLOATS, TypeRuleError
from .batch_sizes import batch_size
from .resizing import resized
from .without_llvm import llvm_fails


@dataclass(frozen=True)
class Equivalent:
    """A graph that computes the same as another one, from the same inputs.

    change: what was changed, in words that follow "when". cuts: whether the change is meant to leave
    nodes to TVM, so that a region becomes two; of several such graphs with the same `change` one is
    enough.
    """

    change: str
    graph: Graph
    cuts: bool = False


#: Nodes to be added, each as (operator, operands, attributes); an operand is a name, or the result of a
#: node before as (its position in the chain, the number of the result).
_Step = tuple[str, Sequence[Any], dict[str, Any]]
#: Returns a chain of nodes after which a value of that type is what it was; None where there is none.
_Identity = Callable[[str, TensorType], "Sequence[_Step] | None"]


def equivalents(graph: Graph, ir: str) -> list[Equivalent]:
    """Returns graphs that compute the same as `graph`, in an order that its digest rotates.

    Graphs that TVM itself is known not to build are left out.
    """
    found = [
        e for make in _REWRITES for e in make(graph)
        if _in_ir(e.graph, ir) and not (llvm_fails(e.graph, ir) and not llvm_fails(graph, ir))
    ]
    changes = list(dict.fromkeys(e.change for e in found))
    start = graph.digest[0] % max(len(changes), 1)
    return [e for change in (*changes[start:], *changes[:start]) for e in found if e.change == change]


def _in_ir(graph: Graph, ir: str) -> bool:
    return all(ir in OPERATORS[op].irs() for op in graph.operators)


# --- adding nodes ------------------------------------------------------------------------------


def _fresh(graph: Graph) -> Iterator[str]:
    """Yields names that no value of the graph has."""
    taken = {s.name for s in graph.sources()} | {name for node in graph.nodes for name in node.outputs}
    number = 0
    while True:
        name = f"e{number}"
        number += 1
        if name not in taken:
            yield name


def _passed(
    graph: Graph, value: str, chain: Sequence[_Step], constants: Sequence[Source] = ()
) -> Graph | None:
    """Returns the graph in which those that read `value` read the result of a chain of nodes instead.

    None where a type rule rejects the chain, or where it does not end with the type of `value`.
    """
    names, types = _fresh(graph), {value: graph.type_of(value), **{s.name: s.type for s in constants}}
    added: list[Node] = []
    for op, operands, attrs in chain:
        given = [o if isinstance(o, str) else added[o[0]].outputs[o[1]] for o in operands]
        try:
            results = OPERATORS[op].infer([types[name] for name in given], attrs)
        except TypeRuleError:
            return None
        outputs = tuple(next(names) for _ in results)
        types.update(zip(outputs, results))
        added.append(Node(op, tuple(given), attrs, outputs, results))
    last = added[-1].outputs[0]
    if types[last] != graph.type_of(value):
        return None
    renamed = {value: last}
    maker = next((n for n, node in enumerate(graph.nodes) if value in node.outputs), -1)
    before, behind = graph.nodes[: maker + 1], graph.nodes[maker + 1 :]
    behind = tuple(replace(n, inputs=tuple(renamed.get(i, i) for i in n.inputs)) for n in behind)
    outputs = tuple(renamed.get(o, o) for o in graph.outputs) if maker >= 0 else graph.outputs
    return Graph(graph.inputs, (*graph.constants, *constants), (*before, *added, *behind), outputs)


def _inner(graph: Graph) -> list[str]:
    """Returns the values that one node computes and another one reads, the middle one first."""
    read = {name for node in graph.nodes for name in node.inputs}
    fixed = {s.name for s in graph.constants}
    found = []
    for node in graph.nodes:
        if node.inputs and fixed.issuperset(node.inputs):
            # TVM computes it when it compiles the graph.
            fixed.update(node.outputs)
            continue
        found += [name for name in node.outputs if name in read]
    middle = len(found) // 2
    return [*found[middle:], *found[:middle]]


def _values(graph: Graph) -> list[str]:
    """Returns the values at which a chain may be added: those of `_inner`, inputs, and outputs."""
    read = {name for node in graph.nodes for name in node.inputs}
    inputs = [s.name for s in graph.inputs if s.name in read]
    return [*_inner(graph), *inputs, *(o for node in graph.nodes for o in node.outputs if o in graph.outputs)]


# --- chains that change nothing ------------------------------------------------------------------


def _transposed(value: str, x: TensorType) -> Sequence[_Step] | None:
    if x.rank < 2:
        return None
    turned = (*range(1, x.rank), 0)
    back = (x.rank - 1, *range(x.rank - 1))
    return [("transpose", [value], {"axes": turned}), ("transpose", [(0, 0)], {"axes": back})]


def _joined(value: str, x: TensorType) -> Sequence[_Step] | None:
    """A split into unequal parts along the longest axis, joined again."""
    axis = max(range(x.rank), key=lambda a: x.shape[a], default=None)
    if axis is None or x.shape[axis] < 2:
        return None
    parts = {"indices_or_sections": ((x.shape[axis] + 1) // 3 or 1,), "axis": axis}
    return [("split", [value], parts), ("concatenate", [(0, 0), (0, 1)], {"axis": axis})]


def _reversed_twice(value: str, x: TensorType) -> Sequence[_Step] | None:
    if x.rank == 0:
        return None
    return [("reverse", [value], {"axis": 0}), ("reverse", [(0, 0)], {"axis": 0})]


def _negated_twice(value: str, x: TensorType) -> Sequence[_Step] | None:
    signed = x.dtype in FLOATS or x.dtype.startswith("int")
    return [("negative", [value], {}), ("negative", [(0, 0)], {})] if signed else None


def _wider(value: str, x: TensorType) -> Sequence[_Step] | None:
    wide = {"float32": "float64", "float16": "float32", "bfloat16": "float32", "int8": "int32"}.get(x.dtype)
    if wide is None:
        return None
    return [("cast", [value], {"dtype": wide}), ("cast", [(0, 0)], {"dtype": x.dtype})]


def _at_first(graph: Graph, identity: _Identity, values: Sequence[str]) -> tuple[str, Graph] | None:
    """Returns the graph with a chain at the first of the values that it fits, and the value."""
    for value in values:
        chain = identity(value, graph.type_of(value))
        changed = _passed(graph, value, chain) if chain else None
        if changed is not None:
            return value, changed
    return None


# --- rewrites ------------------------------------------------------------------------------------


def _moved_and_back(graph: Graph) -> Iterator[Equivalent]:
    """Elements are permuted, or cut apart, and put back."""
    for identity, words in (
        (_transposed, "passes two transposes, the second of which undoes the first"),
        (_joined, "is split and joined again"),
    ):
        found = _at_first(graph, identity, _values(graph))
        if found is not None:
            yield Equivalent(f"%{found[0]} {words}", found[1])


def _plus_zero(graph: Graph) -> Iterator[Equivalent]:
    for value in _values(graph):
        x = graph.type_of(value)
        if x.dtype in OPERATORS["add"].dtypes:
            zero = Source(f"zero_{value}", TensorType((), x.dtype), 0.0, 0.0)
            changed = _passed(graph, value, [("add", [value, zero.name], {})], [zero])
            if changed is not None:
                yield Equivalent(f"zero is added to %{value}", changed)
                return


def _cut(graph: Graph) -> Iterator[Equivalent]:
    """Two nodes are parted by others, which leave the value as it is and which the target may leave to
    TVM."""
    values = _inner(graph)[:1]
    for identity in (_reversed_twice, _negated_twice, _wider, _transposed, _joined):
        found = _at_first(graph, identity, values)
        if found is not None:
            yield Equivalent(f"TVM itself runs operators between those that make and read %{found[0]}",
                             found[1], cuts=True)


def _swapped(graph: Graph) -> Iterator[Equivalent]:
    """The operands of every operator are swapped where that changes nothing."""
    nodes = tuple(
        replace(n, inputs=(n.inputs[1], n.inputs[0], *n.inputs[2:])) if OPERATORS[n.op].commutative else n
        for n in graph.nodes
    )
    if nodes != graph.nodes:
        yield Equivalent("the operands of operators that commute are swapped", replace(graph, nodes=nodes))


def _reassociated(graph: Graph) -> Iterator[Equivalent]:
    """(a + b) + c becomes a + (b + c) where the sum is the same, bit by bit."""
    readers: dict[str, int] = {}
    for name in (*(i for node in graph.nodes for i in node.inputs), *graph.outputs):
        readers[name] = readers.get(name, 0) + 1
    made = {name: position for position, node in enumerate(graph.nodes) for name in node.outputs}
    for position, outer in enumerate(graph.nodes):
        inner = made.get(outer.inputs[0], -1) if outer.inputs else -1
        if inner < 0 or graph.nodes[inner].op != outer.op or readers[outer.inputs[0]] != 1:
            continue
        x = outer.types[0]
        if x.dtype not in OPERATORS[outer.op].associative:
            continue
        (a, b), c = graph.nodes[inner].inputs, outer.inputs[1]
        name = next(_fresh(graph))
        try:
            (type_,) = OPERATORS[outer.op].infer([graph.type_of(b), graph.type_of(c)], outer.attrs)
            (whole,) = OPERATORS[outer.op].infer([graph.type_of(a), type_], outer.attrs)
        except TypeRuleError:
            continue
        if whole == x:
            last = Node(outer.op, (b, c), outer.attrs, (name,), (type_,))
            nodes = list(graph.nodes)
            nodes[position : position + 1] = [last, replace(outer, inputs=(a, name))]
            del nodes[inner]
            yield Equivalent(f"the sum %{outer.outputs[0]} of three is taken from the right",
                             replace(graph, nodes=tuple(nodes)))
            return


def _computed_twice(graph: Graph) -> Iterator[Equivalent]:
    """A node with two readers is computed for each of them."""
    for position, node in enumerate(graph.nodes):
        readers = [n for n, other in enumerate(graph.nodes) if set(node.outputs).intersection(other.inputs)]
        if len(readers) < 2:
            continue
        names = _fresh(graph)
        again = replace(node, outputs=tuple(next(names) for _ in node.outputs))
        renamed = dict(zip(node.outputs, again.outputs))
        last = graph.nodes[readers[-1]]
        nodes = list(graph.nodes)
        nodes[readers[-1]] = replace(last, inputs=tuple(renamed.get(i, i) for i in last.inputs))
        nodes.insert(position + 1, again)
        yield Equivalent(f"%{node.outputs[0]} is computed for each of its readers",
                         replace(graph, nodes=tuple(nodes)))
        return


def _in_two_batches(graph: Graph) -> Iterator[Equivalent]:
    """The batch is split, each part is computed alone, and the results are joined.

    The type rules do not tell whether an operator mixes the elements of a batch, so this graph may
    compute something else.
    """
    batch = batch_size(graph)
    if batch is None or batch < 2:
        return
    following = [s.name for s in graph.inputs if s.type.shape[:1] == (batch,) and s.data is None]
    for names in (following, following[:1]):
        found = _halved(graph, names, (batch + 1) // 3 or 1)
        if found is not None:
            yield Equivalent("the batch is split, computed in two parts, and joined", found)
            return


def _halved(graph: Graph, names: Sequence[str], first: int) -> Graph | None:
    """Returns the graph with these inputs split along their first axis behind `first` elements."""
    batch = graph.type_of(names[0]).shape[0]
    try:
        halves = [resized(graph, {(name, 0): size for name in names}) for size in (first, batch - first)]
    except (TypeRuleError, ValueError):
        return None
    fresh = _fresh(graph)
    nodes: list[Node] = []
    renamed: list[dict[str, str]] = [{}, {}]
    for name in names:
        types = tuple(h.type_of(name) for h in halves)
        outputs = (next(fresh), next(fresh))
        nodes.append(Node("split", (name,), {"indices_or_sections": (first,), "axis": 0}, outputs, types))
        for names_of, output in zip(renamed, outputs):
            names_of[name] = output
    for made, names_of in zip(halves, renamed):
        for node in made.nodes:
            inputs = tuple(names_of.get(i, i) for i in node.inputs)
            results = tuple(next(fresh) for _ in node.outputs)
            names_of.update(zip(node.outputs, results))
            nodes.append(replace(node, inputs=inputs, outputs=results))
    joined_names: list[str] = []
    for name in graph.outputs:
        parts = [names_of.get(name, name) for names_of in renamed]
        types = tuple(made.type_of(name) for made in halves)
        try:
            (joined,) = OPERATORS["concatenate"].infer(types, {"axis": 0})
        except TypeRuleError:
            return None
        if joined != graph.type_of(name):
            return None
        joined_names.append(next(fresh))
        nodes.append(Node("concatenate", tuple(parts), {"axis": 0}, (joined_names[-1],), (joined,)))
    return Graph(graph.inputs, graph.constants, tuple(nodes), tuple(joined_names))


_REWRITES: tuple[Callable[[Graph], Iterator[Equivalent]], ...] = (
    _cut, _in_two_batches, _moved_and_back, _reassociated, _computed_twice, _swapped, _plus_zero,
)
