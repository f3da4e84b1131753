"""Compares a single operator with its simplest case, and makes it plainer step by step.

Attributes become their defaults, or ones if they are sizes, alone and together. Axes get one
element, and the operands that depend on them follow. Dtype, rank and operands become those of the
simplest case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

from ..core.graph import Graph, Node, Source, TensorType
from ..operators import OPERATORS, within
from ..operators.measured import dtypes as runnable
from ..operators.record import CONSTANT, DATA, FRESH, LEAD, Operand, Operator, TypeRuleError
from .builder import Builder, choose_parameters, first

#: A source counts as wide if its range is more than this many times the operand's own.
_WIDE = 10
#: Exceptions that records raise for operands and attributes they do not accept.
UNFIT = (TypeRuleError, LookupError, StopIteration, ValueError, TypeError)


class Differences(NamedTuple):
    """The differences of an operator from its simplest case. attributes: those that have neither
    their default nor, if they are sizes, ones. others: phrases for the dtype, the rank and the
    operands that are not those of the simplest case."""

    attributes: dict[str, Any]
    others: tuple[str, ...]

    @property
    def number(self) -> int:
        return len(self.attributes) + len(self.others)


def alone(graph: Graph, node: Node) -> Graph:
    """Returns a graph of the node alone; results of other nodes become inputs of the same type."""
    sources = {s.name: s for s in graph.sources()}
    constants = {s.name for s in graph.constants}
    operands = {i: sources.get(i) or Source(i, graph.type_of(i), seed=1) for i in node.inputs}
    return Graph(
        tuple(s for n, s in operands.items() if n not in constants),
        tuple(s for n, s in operands.items() if n in constants),
        (node,),
        node.outputs,
    )


def differences(graph: Graph, ir: str) -> Differences:
    """Returns how a graph of one operator differs from the operator's simplest case; no differences
    if the operator has no record."""
    (node,) = graph.nodes
    op = OPERATORS.get(node.op)
    if op is None:
        return Differences({}, ())
    operands, defaults = _described(op, graph, ir)
    attributes = {
        name: value for name, value in node.attrs.items()
        if name not in defaults or not _is_plain(value, defaults[name])
    }
    return Differences(attributes, tuple(_others(op, graph, operands, ir)))


def dtype_of(graph: Graph) -> str:
    """Returns the dtype of the first operator's first operand, or of its result if it has none."""
    node = graph.nodes[0]
    return graph.type_of(node.inputs[0]).dtype if node.inputs else node.types[0].dtype


def extents(graph: Graph) -> Iterator[str]:
    """Yields a phrase for each axis of an operand that has no element or more than one; axes are
    counted from the last one."""
    (node,) = graph.nodes
    for i, name in enumerate(node.inputs):
        shape = graph.type_of(name).shape
        for axis, n in enumerate(shape):
            if n != 1:
                yield f"operand {i}: axis {axis - len(shape)} {'> 1' if n else '= 0'}"


def plainer(graph: Graph, ir: str) -> Iterator[Graph]:
    """Yields graphs of the operator with fewer differences or elements, the boldest first."""
    (node,) = graph.nodes
    if node.op not in OPERATORS or not node.inputs:
        return
    yield from _from_the_record(graph, ir)
    yield from _steps(graph, ir)


def without(graph: Graph, gone: frozenset[str], ir: str) -> Graph | None:
    """Returns the operator without the traits in `gone` (see `signature.traits`), as far as its
    record allows; None if it does not allow that, or the operator has no record or no operands."""
    (node,) = graph.nodes
    if node.op not in OPERATORS or not node.inputs:
        return None
    x, kept = graph.type_of(node.inputs[0]), dict(differences(graph, ir).attributes)
    kept = {name: value for name, value in kept.items() if not any(t.startswith(f"{name}=") for t in gone)}
    shape = tuple(
        1 if f"operand 0: axis {axis - x.rank} > 1" in gone else n for axis, n in enumerate(x.shape)
    )
    dtypes = runnable(OPERATORS[node.op], ir)
    dtype = dtypes[0] if dtypes and f"dtype={x.dtype}" in gone else x.dtype
    for small in (False, True):
        candidate = applied(within(node.op, ir), TensorType(shape, dtype), kept, small)
        if candidate is not None and kept == differences(candidate, ir).attributes:
            return candidate
    return None


# --- differences ---------------------------------------------------------------------------------


def _described(op: Operator, graph: Graph, ir: str) -> tuple[Sequence[Operand], dict[str, Any]]:
    """Returns the operands by the record (none if they do not fit) and the default of each
    attribute, given the attributes before it."""
    (node,) = graph.nodes
    record = within(op.name, ir if ir in op.irs() else None)
    defaults: dict[str, Any] = {}
    chosen: dict[str, Any] = {}
    try:
        x = graph.type_of(node.inputs[0])
        for parameter in record.parameters:
            default = first(parameter.name, parameter.values(x, chosen))
            chosen[parameter.name] = node.attrs.get(parameter.name, default)
            defaults[parameter.name] = default
        operands = record.operands(x, chosen)
    except UNFIT:
        return (), defaults
    return operands if len(operands) == len(node.inputs) else (), defaults


def _numbers(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _is_size(default: Any) -> bool:
    """Returns whether a parameter with that default is a size; its plainest value is all ones."""
    numbers = _numbers(default)
    return bool(numbers) and all(type(n) is int and n >= 1 for n in numbers)


def _is_plain(value: Any, default: Any) -> bool:
    mine, theirs = _numbers(value), _numbers(default)
    return mine == theirs or (_is_size(default) and len(mine) == len(theirs) and all(n == 1 for n in mine))


def _others(op: Operator, graph: Graph, operands: Sequence[Operand], ir: str) -> Iterator[str]:
    (node,) = graph.nodes
    if not node.inputs:
        return
    x = graph.type_of(node.inputs[0])
    dtypes = runnable(op, ir if ir in op.irs() else None)
    if dtypes and x.dtype != dtypes[0]:
        yield f"dtype={x.dtype}"
    if x.rank != len(op.shapes[0]):
        yield f"rank={x.rank}"
    sources = {s.name: s for s in graph.sources()}
    constants = {s.name for s in graph.constants}
    for i, name in enumerate(node.inputs):
        if name in node.inputs[:i]:
            yield f"operand {i} is operand {node.inputs.index(name)}"
    for i, (name, operand) in enumerate(zip(node.inputs, operands)):
        source = sources[name]
        if name in constants and _is_input(operand):
            yield f"operand {i} is a constant"
        if name not in constants and not _is_input(operand) and operand.role != CONSTANT:
            yield f"operand {i} is an input"
        if source.data is not None and operand.data is None:
            yield f"operand {i} has given elements"
        elif _is_wide(source, operand):
            yield f"operand {i} has large elements"


def _is_input(operand: Operand) -> bool:
    return operand.role in (LEAD, DATA, FRESH)


def _is_wide(source: Source, operand: Operand) -> bool:
    usual = max(1.0, *map(abs, operand.range()))
    return source.data is None and max(abs(source.low), abs(source.high)) > _WIDE * usual


# --- plainer graphs ------------------------------------------------------------------------------


def applied(op: Operator, x: TensorType, kept: Mapping[str, Any], small: bool = False) -> Graph | None:
    """Returns the operator applied to a first operand of type `x`, or None if its record does not
    allow that. kept: values of parameters; the others have their defaults or, if `small` and they
    are sizes, ones."""

    def pick(name: str, classes: Mapping[str, Sequence[Any]]) -> Any:
        if name in kept:
            return kept[name]
        default = first(name, classes)
        if not small or not _is_size(default):
            return default
        ones = (v for vs in classes.values() for v in vs if all(n == 1 for n in _numbers(v)))
        return next(ones, default)

    builder = Builder(seed=1)
    try:
        if not op.takes(x):
            return None
        results = builder.apply(op, builder.lead(op, x), choose_parameters(op, x, pick))
    except UNFIT:
        return None
    return builder.graph(*results[: op.used])


def _from_the_record(graph: Graph, ir: str) -> Iterator[Graph]:
    """Yields graphs that the record makes with fewer differences and smaller first operands;
    operands that depend on these change too."""
    (node,) = graph.nodes
    op = within(node.op, ir)
    x = graph.type_of(node.inputs[0])
    default = (runnable(OPERATORS[node.op], ir) or (x.dtype,))[0]
    kept = differences(graph, ir).attributes
    usual, one = op.shapes[0], (1,) * x.rank
    simplest: list[tuple[tuple[int, ...], str, Mapping[str, Any]]] = [
        ((1,) * len(usual), default, {}), (usual, default, {}), (one, x.dtype, {}), (x.shape, x.dtype, {}),
        (one, default, kept), (usual, default, kept), (one, x.dtype, kept), (x.shape, default, kept),
    ]
    fewer = [{n: v for n, v in kept.items() if n != name} for name in kept]
    single = [{name: value} for name, value in kept.items()] if len(kept) > 2 else []
    simplest += [(shape, x.dtype, some) for some in (*single, *fewer) for shape in (usual, x.shape)]
    simplest += [(shape, x.dtype, kept) for shape in _smaller(x.shape)]
    for shape, dtype, some in simplest:
        for small in (True, False):
            candidate = applied(op, TensorType(shape, dtype), some, small)
            if candidate is not None:
                yield candidate


def _smaller(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yields smaller shapes: first those with one axis of more than one element, then those with
    one axis made shorter."""
    long = [axis for axis, n in enumerate(shape) if n > 1]
    if len(long) > 1:
        for axis in long:
            for n in dict.fromkeys((2, shape[axis])):
                yield tuple(n if a == axis else min(1, m) for a, m in enumerate(shape))
    for axis in long:
        for n in (1, 2, shape[axis] // 2):
            if n < shape[axis]:
                yield (*shape[:axis], n, *shape[axis + 1 :])


def _steps(graph: Graph, ir: str) -> Iterator[Graph]:
    """Yields graphs in which one thing is plainer and everything else stays."""
    (node,) = graph.nodes
    _, defaults = _described(OPERATORS[node.op], graph, ir)
    for name in differences(graph, ir).attributes:
        for attrs in without_attribute(graph, name, ir):
            yield from retyped(graph, {}, {0: attrs})
        for value in _nearer(node.attrs[name], defaults.get(name)):
            yield from retyped(graph, {}, {0: {**node.attrs, name: value}})
    yield from _own_operands(graph, ir)
    sources = [s for s in graph.sources() if s.data is None]
    long = [(s, axis) for s in sources for axis, n in enumerate(s.type.shape) if n > 1]
    alike = [pair for pair in combinations(long, 2) if len({s.type.shape[axis] for s, axis in pair}) == 1]
    for places in (*alike, *((place,) for place in long)):
        for n in (1, 2):
            if n < places[0][0].type.shape[places[0][1]]:
                yield from retyped(graph, _with_extent(places, n), {})


def _nearer(value: Any, default: Any) -> Iterator[Any]:
    """Yields values of a tuple of integers with one of them at its default, or one above it."""
    if not isinstance(value, tuple) or not isinstance(default, tuple) or len(value) != len(default):
        return
    if not all(type(n) is int for n in (*value, *default)):
        return
    for i, (mine, theirs) in enumerate(zip(value, default)):
        for n in (theirs, theirs + 1):
            if abs(n - theirs) < abs(mine - theirs):
                yield (*value[:i], n, *value[i + 1 :])


def distance(graph: Graph, ir: str) -> int:
    """Returns the sum of the distances of the operator's integer attributes from their defaults."""
    (node,) = graph.nodes
    if node.op not in OPERATORS:
        return 0
    _, defaults = _described(OPERATORS[node.op], graph, ir)
    total = 0
    for name, value in differences(graph, ir).attributes.items():
        mine, theirs = _numbers(value), _numbers(defaults.get(name))
        if len(mine) == len(theirs) and all(type(n) is int for n in (*mine, *theirs)):
            total += sum(abs(a - b) for a, b in zip(mine, theirs))
    return total


def without_attribute(graph: Graph, name: str, ir: str) -> Iterator[dict[str, Any]]:
    """Yields the operator's attributes with `name` at its default, or without it if it has none."""
    (node,) = graph.nodes
    _, defaults = _described(OPERATORS[node.op], graph, ir)
    if name in defaults:
        yield {**node.attrs, name: defaults[name]}
    else:
        yield {k: v for k, v in node.attrs.items() if k != name}


def _with_extent(places: Sequence[tuple[Source, int]], n: int) -> dict[str, Source]:
    changed: dict[str, Source] = {}
    for source, axis in places:
        source = changed.get(source.name, source)
        shape = (*source.type.shape[:axis], n, *source.type.shape[axis + 1 :])
        changed[source.name] = replace(source, type=replace(source.type, shape=shape))
    return changed


def retyped(
    graph: Graph, sources: Mapping[str, Source], attrs: Mapping[int, Mapping[str, Any]]
) -> Iterator[Graph]:
    """Yields the graph with other sources (by name) and other attributes (by position of the node),
    its types inferred again. Yields nothing if a type rule rejects them, or if a result that had
    elements has none any more."""
    changed = {s.name: sources.get(s.name, s) for s in graph.sources()}
    types = {name: s.type for name, s in changed.items()}
    nodes: list[Node] = []
    for position, node in enumerate(graph.nodes):
        chosen = attrs.get(position, node.attrs)
        if node.op not in OPERATORS:
            return
        try:
            results = OPERATORS[node.op].infer([types[name] for name in node.inputs], chosen)
        except UNFIT:
            return
        if len(results) != len(node.types):
            return
        if any(new.size == 0 < old.size for new, old in zip(results, node.types)):
            return
        nodes.append(replace(node, attrs=chosen, types=tuple(results)))
        types.update(zip(node.outputs, results))
    yield replace(
        graph,
        inputs=tuple(changed[s.name] for s in graph.inputs),
        constants=tuple(changed[s.name] for s in graph.constants),
        nodes=tuple(nodes),
    )


def _own_operands(graph: Graph, ir: str) -> Iterator[Graph]:
    """Yields graphs with one operand as in the simplest case: a value of its own, drawn from the
    usual range, and a constant or an input as usual."""
    (node,) = graph.nodes
    operands, _ = _described(OPERATORS[node.op], graph, ir)
    sources = {s.name: s for s in graph.sources()}
    constants = {s.name for s in graph.constants}
    for i, (name, operand) in enumerate(zip(node.inputs, operands)):
        source = sources[name]
        low, high = operand.range()
        others = [n for k, n in enumerate(node.inputs) if k != i]
        if name in others:
            source = replace(source, name=f"apart{i}")
        elif source.data is not None and operand.data is None:
            source = replace(source, data=None, low=low, high=high, seed=1)
        elif _is_wide(source, operand):
            source = replace(source, low=low, high=high)
        elif (name in constants) == (not _is_input(operand)):
            continue
        inputs = (*node.inputs[:i], source.name, *node.inputs[i + 1 :])
        fixed = name in constants if name in others else not _is_input(operand)
        kept = {n: s for n, s in sources.items() if n in inputs}
        everything = {**kept, source.name: source}
        fixed_names = {n for n in constants if n != source.name} | ({source.name} if fixed else set())
        yield Graph(
            tuple(s for n, s in everything.items() if n not in fixed_names),
            tuple(s for n, s in everything.items() if n in fixed_names),
            (replace(node, inputs=inputs),),
            graph.outputs,
        )
