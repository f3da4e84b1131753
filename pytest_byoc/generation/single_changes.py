"""Changes a graph of one operator toward the operator's simplest case, one thing at a time, and names in
words what the graph has instead: an attribute, a constant operand, a type, a rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from ..core.graph import Graph, Source, TensorType
from ..operators import OPERATORS, within
from ..operators.record import BIAS, UNSET, WEIGHT, Operator
from .builder import choose_parameters, first
from .plain import UNFIT, applied, retyped
from .systematic import default_case

#: The most shapes of one rank that are tried in place of another.
_SHAPES = 2


class Change(NamedTuple):
    """A graph in which one thing has changed. what: the thing as it was before, in words."""

    what: str
    graph: Graph


def lead_type(graph: Graph, ir: str | None) -> TensorType:
    """Returns the type of the operand of a graph of one operator from which the record derives the others."""
    (node,) = graph.nodes
    position = _lead(node.op)
    return graph.type_of(node.inputs[position if position < len(node.inputs) else 0])


def changes(graph: Graph, ir: str) -> Iterator[Change]:
    """Yields the graphs of one operator that differ from a graph in one thing, in which they have what the
    operator's simplest case has: first attributes, then operands, then the shape of the first one."""
    record = within(graph.nodes[0].op, ir)
    x, attrs = lead_type(graph, ir), _attributes(graph)
    for name, default in _defaults(record, x, attrs).items():
        if attrs.get(name, default) != default:
            rest = {k: v for k, v in attrs.items() if k != name}
            what = f"{name}={attrs[name]!r}"
            yield from _named(what, retyped(graph, {}, {0: {**graph.nodes[0].attrs, name: default}}))
            yield from _named(what, _like(graph, applied(record, x, rest)))
    yield from _operands(graph, record, x, attrs)
    yield from _shapes(graph, record, x, attrs)


def simplest(graph: Graph, ir: str) -> Change | None:
    """Returns the operator with its default attributes on a first operand of the graph's type, or None if
    there is none. what: the rank or the shape of that operand."""
    record, x = within(graph.nodes[0].op, ir), lead_type(graph, ir)
    found = applied(record, x, {})
    what = f"rank {x.rank}" if x.rank != len(record.shapes[0]) else f"shape {x.shape}"
    return None if found is None else Change(what, found)


def one_attribute(graph: Graph, ir: str, own_type: bool) -> Iterator[Change]:
    """Yields the operator with one attribute of the graph, all others being defaults. what: that attribute.

    own_type: whether the first operand has its type in the graph, instead of that in the simplest case.
    """
    record, x = within(graph.nodes[0].op, ir), lead_type(graph, ir)
    x = x if own_type else TensorType(record.shapes[0], x.dtype)
    attrs = _attributes(graph)
    for name, default in _defaults(record, x, {}).items():
        if attrs.get(name, default) != default:
            found = applied(record, x, {name: attrs[name]})
            yield from () if found is None else (Change(f"{name}={attrs[name]!r}", found),)


def _attributes(graph: Graph) -> dict[str, Any]:
    return {name: value for name, value in graph.nodes[0].attrs.items() if name != UNSET}


@cache
def _lead(name: str) -> int:
    """Returns the position of the operand from which an operator's others are derived."""
    simplest = default_case(name, OPERATORS[name].dtypes[0]).graph
    return simplest.nodes[0].inputs.index(simplest.inputs[0].name)


def _defaults(op: Operator, x: TensorType, attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the default of each attribute, given the attributes before it."""
    defaults: dict[str, Any] = {}
    chosen: dict[str, Any] = {}
    try:
        for parameter in op.parameters:
            default = first(parameter.name, parameter.values(x, chosen))
            chosen[parameter.name] = attrs.get(parameter.name, default)
            if parameter.attribute:
                defaults[parameter.name] = default
    except UNFIT:
        pass  # The attributes before it have defaults.
    return defaults


def _named(what: str, graphs: Iterator[Graph]) -> Iterator[Change]:
    return (Change(what, graph) for graph in graphs)


# --- operands ------------------------------------------------------------------------------------


def _operands(graph: Graph, op: Operator, x: TensorType, attrs: Mapping[str, Any]) -> Iterator[Change]:
    """Yields graphs in which one operand is as the record makes it from the first one."""
    (node,) = graph.nodes
    usual = applied(op, x, attrs)
    if usual is None:
        return
    names = usual.nodes[0].inputs
    if len(names) != len(node.inputs):
        yield from _named(f"{len(node.inputs)} operands", _like(graph, usual))
        return
    own, others = ({s.name: s for s in g.sources()} for g in (graph, usual))
    constant, constants = ({s.name for s in g.constants} for g in (graph, usual))
    for i, (name, other) in enumerate(zip(node.inputs, names)):
        called = _called(op, x, attrs, i)
        if name in node.inputs[:i]:
            if other not in names[:i]:
                apart = replace(own[name], name=f"{name}_{i}")
                what = f"{called} is operand {node.inputs.index(name)}"
                yield Change(what, _with(graph, i, apart, name in constant))
            continue
        if (name in constant) != (other in constants):
            what = f"{called} is {'a' if name in constant else 'no'} constant"
            yield Change(what, _with(graph, i, _elements(own[name], others[other]), other in constants))
        elif own[name].data is not None:
            source = _elements(own[name], others[other])
            yield Change(f"the elements of {called}", _with(graph, i, source, name in constant))
        if own[name].type != others[other].type:
            what = f"{called} is {own[name].type}"
            source = replace(own[name], type=others[other].type, data=None)
            yield from _named(what, retyped(graph, {name: source}, {}))
            yield from _named(what, _like(graph, usual))


def _called(op: Operator, x: TensorType, attrs: Mapping[str, Any], position: int) -> str:
    """Returns a name for an operand."""
    chosen = choose_parameters(op, x, lambda name, of: attrs[name] if name in attrs else first(name, of))
    role = op.operands(x, chosen)[position].role
    return f"the {role}" if role in (WEIGHT, BIAS) else f"operand {position}"


def _elements(source: Source, other: Source) -> Source:
    """Returns a source with the elements of another, if these have its shape, or with random ones."""
    alike = source.type == other.type
    return replace(source, low=other.low, high=other.high, seed=1, data=other.data if alike else None)


def _with(graph: Graph, position: int, source: Source, constant: bool) -> Graph:
    """Returns a graph of one operator with another source as the operand at a position."""
    (node,) = graph.nodes
    names = (*node.inputs[:position], source.name, *node.inputs[position + 1 :])
    constants = {s.name for s in graph.constants} - {source.name} | ({source.name} if constant else set())
    sources = {**{s.name: s for s in graph.sources()}, source.name: source}
    return Graph(
        tuple(s for n, s in sources.items() if n in names and n not in constants),
        tuple(s for n, s in sources.items() if n in names and n in constants),
        (replace(node, inputs=names),), graph.outputs,
    )


def _like(graph: Graph, other: Graph | None) -> Iterator[Graph]:
    """Yields another graph of the operator with constants where the graph has them. Yields nothing without
    that graph."""
    if other is None:
        return
    constants = {s.name for s in graph.constants}
    for i, name in enumerate(graph.nodes[0].inputs):
        names = other.nodes[0].inputs
        if i < len(names) and names[i] not in names[:i]:
            source = next(s for s in other.sources() if s.name == names[i])
            other = _with(other, i, source, name in constants)
    if other.inputs:
        yield other


# --- shapes --------------------------------------------------------------------------------------


def _shapes(graph: Graph, op: Operator, x: TensorType, attrs: Mapping[str, Any]) -> Iterator[Change]:
    """Yields graphs whose first operand has another shape, from which the others follow."""
    if x.rank > 1 and x.shape[0] > 1:
        batch = x.shape[0]
        sources = {
            s.name: replace(s, type=replace(s.type, shape=(1, *s.type.shape[1:])))
            for s in graph.inputs if s.type.rank == x.rank and s.type.shape[0] == batch and s.data is None
        }
        what = f"extent {batch} of axis 0"
        yield from _named(what, retyped(graph, sources, {}))
        yield from _named(what, _like(graph, applied(op, replace(x, shape=(1, *x.shape[1:])), attrs)))
    for shape in _in_ranks(op, x.shape):
        what = f"shape {x.shape}" if len(shape) == x.rank else f"rank {x.rank}"
        yield from _named(what, _like(graph, applied(op, TensorType(shape, x.dtype), attrs)))


def _in_ranks(op: Operator, shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yields other shapes: a few of the same rank, the same shape with more or fewer axes of one element, and
    one of each other rank."""
    alike = [s for s in op.shapes if len(s) == len(shape) and s != shape]
    yield from alike[:_SHAPES]
    for rank in (4, 3, 2):
        if rank > len(shape):
            yield (1,) * (rank - len(shape)) + shape
        elif 0 < rank < len(shape) and shape[: len(shape) - rank] == (1,) * (len(shape) - rank):
            yield shape[len(shape) - rank :]
    by_rank: dict[int, Sequence[int]] = {}
    for s in op.shapes:
        by_rank.setdefault(len(s), s)
    yield from (tuple(s) for rank, s in by_rank.items() if rank != len(shape))
