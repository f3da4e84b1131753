"""Makes near misses: graphs that are one step away from a graph that a pattern matches.

The target must compute each correctly or not offload it. Checks are often wrong there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ...core.graph import Graph, GraphFormatError, Node, Source, TensorType
from ...operators import OPERATORS
from ...operators.measured import dtypes as runnable
from ...operators.record import (
    CONSTANT,
    FLOATS,
    FRESH,
    Operand,
    Operator,
    TypeRuleError,
    default_range,
)
from ..retyping import resourced, retyped, with_source
from .operand_shapes import operand_shapes
from .permutations import other_permutations

#: The kind of a near miss by the first word of its label; other words stand for an attribute.
_KINDS = {
    "input": "constness", "constant": "constness", "rank": "rank", "broadcast": "broadcast",
    "returned": "consumer", "swapped": "order", "data": "data", "permuted": "permutation",
}
#: The kinds that have a limit of their own: there are many of each.
OPERAND_FORMS = frozenset({"broadcast", "permutation"})
#: Dtypes to which a graph is changed, if all of its operators accept them.
_OTHER_DTYPES = ("float64", "float16", "int32", "int8")
#: The most values of a class that are tried.
_VALUES = 8

T = TypeVar("T")


def kind(label: str) -> str:
    """Returns the kind of the near miss with that label: attribute, data, dtype, constness, rank,
    broadcast, permutation, consumer or order."""
    word = label.partition("_")[0]
    return {**dict.fromkeys(_OTHER_DTYPES, "dtype"), **_KINDS}.get(word, "attribute")


def spread(found: Sequence[tuple[str, T]], limit: int) -> list[T]:
    """Returns at most `limit` items of the (kind, item) pairs: equally many of each kind as far as
    there are, spread evenly over the items of the kind."""
    kinds: dict[str, list[T]] = {}
    for name, one in found:
        kinds.setdefault(name, []).append(one)
    shares = dict.fromkeys(kinds, 0)
    left = min(limit, len(found))
    while left:
        for name in kinds:
            if left and shares[name] < len(kinds[name]):
                shares[name] += 1
                left -= 1
    return [some[i * len(some) // shares[name]] for name, some in kinds.items() for i in range(shares[name])]


def near_misses(graph: Graph, ir: str, forms: bool = True) -> Iterator[tuple[str, Graph]]:
    """Yields (label, graph) for graphs that differ from `graph` in one thing: an attribute, a scale
    or zero point, the dtype, whether a source is a constant, the rank, how an operand is broadcast,
    a permutation, an additional output, or the order of the operands.

    forms: whether those of the kinds OPERAND_FORMS are among them."""
    seen = {graph}
    for label, changed in _all(graph, ir, forms):
        if changed is not None and changed not in seen:
            seen.add(changed)
            yield label, changed


def _all(graph: Graph, ir: str, forms: bool) -> Iterator[tuple[str, Graph | None]]:
    for i, node in enumerate(graph.nodes):
        for name, value, may_differ in _other_values(graph, node):
            changed = _with_attr(graph, i, name, value)
            if changed is not None and (may_differ or changed.nodes[i].types == node.types):
                yield f"{node.op}.{name}_{_word(value)}", changed
        for name, source in _other_data(graph, node):
            yield f"data_{node.op}.{name}", with_source(graph, source)
    for dtype in _OTHER_DTYPES:
        yield dtype, _with_dtype(graph, dtype, ir)
    for shape in _other_ranks(graph):
        yield f"rank_{len(shape)}", _with_rank(graph, shape)
    for label, other in operand_shapes(graph) if forms else ():
        yield f"broadcast_{label}", other
    for label, other in other_permutations(graph) if forms else ():
        yield f"permuted_{label}", other
    for source in graph.constants:
        if not _must_be_constant(graph, source.name):
            yield f"input_{source.name}", _moved(graph, source, constant=False)
    if len(graph.inputs) > 1:
        for source in graph.inputs:
            yield f"constant_{source.name}", _moved(graph, source, constant=True)
    for node in graph.nodes:
        # A value inside the pattern is an output too.
        for name in node.outputs:
            if name not in graph.outputs:
                yield f"returned_{node.op}", replace(graph, outputs=(*graph.outputs, name))
                break
    for i, node in enumerate(graph.nodes):
        if len(node.inputs) == 2 and node.inputs[0] != node.inputs[1]:
            swapped = replace(node, inputs=node.inputs[::-1])
            yield f"swapped_{node.op}", retyped(graph, {i: swapped})


def _word(value: Any) -> str:
    """Returns a value as part of a test's id."""
    text = "x".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in text)[:24]


def _other_values(graph: Graph, node: Node) -> Iterator[tuple[str, Any, bool]]:
    """Yields, for each attribute, other values: of each class that lacks the present value the
    first, whatever the type of the result (True), and all further ones for a result of the same
    type (False)."""
    op = OPERATORS[node.op]
    # The classes depend on the type of the lead, which is not always the first operand.
    x = graph.type_of(node.inputs[_lead(op, graph, node)])
    chosen: dict[str, Any] = dict(node.attrs)
    for parameter in op.parameters:
        if not parameter.attribute:
            continue
        try:
            classes = parameter.values(x, chosen)
        except (KeyError, IndexError):
            # The classes depend on choices for the operands that a finished node does not show.
            continue
        now = node.attrs.get(parameter.name)
        for values in classes.values():
            new = not any(_same(v, now) for v in values)
            for number, value in enumerate(values[:_VALUES]):
                if not _same(value, now):
                    yield parameter.name, value, new and number == 0


def _other_data(graph: Graph, node: Node) -> Iterator[tuple[str, Source]]:
    """Yields, for each parameter that is not an attribute (scales and zero points), the constants
    that depend on it with the first value of each of its classes, one constant at a time."""
    op = OPERATORS[node.op]
    x = graph.type_of(node.inputs[_lead(op, graph, node)])
    constants = {s.name: s for s in graph.constants}
    for parameter in (p for p in op.parameters if not p.attribute):
        try:
            chosen = dict(node.attrs)
            for p in op.parameters:
                chosen.setdefault(p.name, next(v for vs in p.values(x, chosen).values() for v in vs))
            by_label = {
                label: op.operands(x, {**chosen, parameter.name: values[0]})
                for label, values in parameter.values(x, chosen).items()
            }
        except (KeyError, IndexError, StopIteration, TypeRuleError):
            # The operands depend on choices that a finished node does not show.
            continue
        usual = next(iter(by_label.values()))
        for i, source in ((i, constants[n]) for i, n in enumerate(node.inputs) if n in constants):
            if any(operands[i : i + 1] != usual[i : i + 1] for operands in by_label.values()):
                for label, operands in by_label.items():
                    # With another number of operands it would be another node.
                    if len(operands) == len(node.inputs) and not _same(source.data, operands[i].data):
                        other = replace(source, type=operands[i].type, data=operands[i].data)
                        yield f"{parameter.name}_{label}_{source.name}", other


def _lead(op: Operator, graph: Graph, node: Node) -> int:
    return next((i for i, name in enumerate(node.inputs) if op.takes(graph.type_of(name))), 0)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


def _with_attr(graph: Graph, position: int, name: str, value: Any) -> Graph | None:
    """Returns the graph with an attribute changed, and with it everything that depends on it:
    attributes whose values it determines, and weights of another shape. None if that is not
    possible."""
    node = graph.nodes[position]
    fitted = _operands(graph, replace(node, attrs={**node.attrs, name: value}))
    if fitted is None:
        return None
    operands, attrs = fitted
    if not _same(attrs[name], value):
        return None
    return _resized(graph, position, replace(node, attrs=attrs), operands)


def _operands(graph: Graph, node: Node) -> tuple[Sequence[Operand], dict[str, Any]] | None:
    """Returns the operands that the operator has with the node's attributes, and these; an
    attribute that does not go with those before it is replaced. None if the operator does not
    accept the node's operands."""
    op = OPERATORS[node.op]
    x = graph.type_of(node.inputs[_lead(op, graph, node)])
    attrs: dict[str, Any] = {}
    try:
        for parameter in op.parameters:
            domain = [v for vs in parameter.values(x, attrs).values() for v in vs]
            now = node.attrs.get(parameter.name)
            attrs[parameter.name] = now if any(_same(now, v) for v in domain) else domain[0]
        return op.operands(x, attrs), op.attrs(attrs)
    except (KeyError, IndexError, TypeRuleError):
        return None


def _resized(graph: Graph, position: int, node: Node, operands: Sequence[Operand]) -> Graph | None:
    """Returns the graph with the sources that a node reads changed to its operands: to their types,
    and to their elements if these are indices. None if that is not possible."""
    if len(operands) != len(node.inputs):
        return None
    wanted = {
        name: operand for name, operand in zip(node.inputs, operands)
        if graph.type_of(name) != operand.type or operand.role == FRESH
    }
    sources = {s.name for s in graph.sources()}
    if any(name not in sources and graph.type_of(name) != operand.type for name, operand in wanted.items()):
        return None

    def resize(s: Source) -> Source:
        operand = wanted.get(s.name)
        if operand is None:
            return s
        low, high = operand.range() if operand.role == FRESH else (s.low, s.high)
        # Given elements do not fit another shape.
        return replace(s, type=operand.type, low=low, high=high, data=operand.data)

    try:
        resized = Graph(
            tuple(map(resize, graph.inputs)), tuple(map(resize, graph.constants)), graph.nodes, graph.outputs
        )
    except GraphFormatError:
        return None
    return retyped(resized, {position: node})


def _with_dtype(graph: Graph, dtype: str, ir: str) -> Graph | None:
    """Returns the graph with another dtype in each source that has the first input's; None if an
    operator does not accept it."""
    if not graph.inputs:
        return None
    old = graph.inputs[0].type.dtype
    if old == dtype:
        return None

    def change(s: Source) -> Source:
        if s.type.dtype != old:
            return s
        low, high = s.low, s.high
        if (dtype in FLOATS) != (old in FLOATS):
            low, high = default_range(dtype)
        # Given elements may not fit an integer dtype.
        data = s.data if dtype in FLOATS else None
        return replace(s, type=TensorType(s.type.shape, dtype), low=low, high=high, data=data)

    # An attribute that gives the dtype of the result follows.
    nodes = {
        i: replace(n, attrs={**n.attrs, "out_dtype": dtype})
        for i, n in enumerate(graph.nodes)
        if n.attrs.get("out_dtype") == old
    }
    changed = resourced(graph, change, nodes)
    if changed is None:
        return None
    for node in changed.nodes:
        op = OPERATORS[node.op]
        allowed = runnable(op, ir)
        if not any(changed.type_of(n).dtype in allowed for n in node.inputs):
            return None
    return changed


def _other_ranks(graph: Graph) -> list[tuple[int, ...]]:
    """Returns shapes of another rank for the first input: one with a leading axis of one element,
    and one without the first axis."""
    shape = graph.inputs[0].type.shape if graph.inputs else ()
    return [(1, *shape), *([shape[1:]] if shape else [])]


def _with_rank(graph: Graph, shape: tuple[int, ...]) -> Graph | None:
    """Returns the graph with another rank of the first input and of sources with the same shape;
    None if an operator does not accept that, or has indices, which are made for one shape."""
    old = graph.inputs[0].type.shape
    for node in graph.nodes:
        fitted = _operands(graph, node)
        if fitted is not None and any(o.role == FRESH for o in fitted[0]):
            return None

    def change(s: Source) -> Source:
        return replace(s, type=TensorType(shape, s.type.dtype), data=None) if s.type.shape == old else s

    try:
        changed = resourced(graph, change)
    except GraphFormatError:
        return None
    if changed is None:
        return None
    for node in changed.nodes:
        op = OPERATORS[node.op]
        # A type rule may let ranks pass that the operator does not accept.
        if not op.accepts(changed.type_of(node.inputs[_lead(op, changed, node)])):
            return None
    return changed


def _must_be_constant(graph: Graph, name: str) -> bool:
    """Returns whether an operator accepts the value only as a constant."""
    for node in graph.nodes:
        op = OPERATORS[node.op]
        if name not in node.inputs:
            continue
        x = graph.type_of(node.inputs[_lead(op, graph, node)])
        try:
            operands = op.operands(x, node.attrs)
        except (KeyError, IndexError, TypeRuleError):
            # The attributes alone do not determine the operands, so the value stays a constant.
            return True
        if any(o.role == CONSTANT and n == name for o, n in zip(operands, node.inputs)):
            return True
    return False


def _moved(graph: Graph, source: Source, constant: bool) -> Graph:
    """Returns the graph with an input made a constant, or a constant made an input."""

    def without(sources: tuple[Source, ...]) -> tuple[Source, ...]:
        return tuple(s for s in sources if s.name != source.name)

    inputs, constants = without(graph.inputs), without(graph.constants)
    if constant:
        return replace(graph, inputs=inputs, constants=(*constants, source))
    return replace(graph, inputs=(*inputs, source), constants=constants)
