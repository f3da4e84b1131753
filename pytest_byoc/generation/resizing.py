"""Makes the same graph for other extents of its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core.graph import Graph, Node, Source, TensorType
from ..operators import OPERATORS
from ..operators.record import TypeRuleError

#: An axis of an input: the input's name and the position of the axis.
Axis = tuple[str, int]
Types = Sequence[TensorType]


def resized(graph: Graph, extents: Mapping[Axis, int], by_value: bool = False) -> Graph:
    """Returns the graph with other extents of its inputs. Constants keep theirs.

    Where an attribute holds an extent, the record of the operator knows how it follows
    (`Operator.following`). by_value: a number that equals an extent before may also become the extent
    that this has now, for example the number of channels. Raises TypeRuleError if the type rules reject
    the graph.
    """
    inputs = tuple(_at(s, extents) for s in graph.inputs)
    types = {s.name: s.type for s in (*inputs, *graph.constants)}
    nodes: list[Node] = []
    for node in graph.nodes:
        before, given = [graph.type_of(i) for i in node.inputs], [types[i] for i in node.inputs]
        attrs, results = _followed(node, before, given, by_value)
        types.update(zip(node.outputs, results))
        nodes.append(replace(node, attrs=attrs, types=results))
    return Graph(inputs, graph.constants, tuple(nodes), graph.outputs)


def _at(source: Source, extents: Mapping[Axis, int]) -> Source:
    shape = tuple(extents.get((source.name, axis), d) for axis, d in enumerate(source.type.shape))
    return replace(source, type=TensorType(shape, source.type.dtype))


def _followed(
    node: Node, before: Types, given: Types, by_value: bool
) -> tuple[Mapping[str, Any], tuple[TensorType, ...]]:
    """Returns the attributes and the result types of a node for other operand types."""
    op = OPERATORS[node.op]
    if not op.accepts(given[0]):
        raise TypeRuleError(f"{node.op} does not accept {given[0]}")
    rejected: TypeRuleError | None = None
    following = op.following(before, given, node.attrs) if op.following and before != given else ()
    for attrs in (node.attrs, *following, *(_by_value(node.attrs, before, given) if by_value else ())):
        try:
            results = op.infer(given, attrs)
        except TypeRuleError as e:
            rejected = rejected or e
            continue
        if len(results) != len(node.outputs):
            raise TypeRuleError(f"{node.op} has {len(results)} results, not {len(node.outputs)}")
        return attrs, results
    assert rejected is not None
    raise rejected


def _by_value(attrs: Mapping[str, Any], before: Types, given: Types) -> Iterator[Mapping[str, Any]]:
    """Yields attributes in which one number has changed as an extent of an operand has."""
    changes = {
        (old, new) for a, b in zip(before, given) for old, new in zip(a.shape, b.shape) if old != new
    }
    for name, value in attrs.items():
        for old, new in sorted(changes):
            if value == old and type(value) is int:
                yield {**attrs, name: new}
