"""Applies one operator several times to the same operands, each time with another attribute."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.graph import Graph, TensorType
from ..operators.record import Operator
from .builder import Builder
from .single import by_default, class_names

#: The number of classes of each parameter that are tested beside the default.
CLASSES = 2


def several_forms(builder: Builder, op: Operator, lead: str) -> list[str]:
    """Adds an operator with all parameters at their defaults, then with one parameter at a time off
    its default. All read the value `lead`, and operands of one type and position are one source.
    Returns the names of the results; none if the operator has only one form.

    A compiler that recognises equal calls by a key without some attribute would compute these
    results only once."""
    shared: dict[object, str] = {}
    outputs: list[str] = []
    graphs = list(_each(op, builder.types[lead]))
    for graph in graphs if len(graphs) > 1 else ():
        (node,) = graph.nodes
        operands = {graph.inputs[0].name: lead}
        for source in (*graph.inputs[1:], *graph.constants):
            key = (node.inputs.index(source.name), source.type)
            if key not in shared:
                make = builder.constant if source in graph.constants else builder.input
                shared[key] = make(source.type, source.low, source.high, source.data)
            operands[source.name] = shared[key]
        outputs += builder.node(op.name, [operands[name] for name in node.inputs], node.attrs)[: op.used]
    return outputs


def _each(op: Operator, x: TensorType) -> Iterator[Graph]:
    """Yields graphs of the operator alone: by default, then with one class of one parameter; graphs
    with equal attributes are yielded once."""
    forced: list[dict[str, str]] = [{}]
    for position, parameter in enumerate(op.parameters):
        labels = class_names(op, position, x.dtype)
        forced += ({parameter.name: label} for label in labels[1 : 1 + CLASSES])
    seen = []
    for classes in forced:
        one = by_default(op, x, classes)
        if one is not None and one.graph.nodes[0].attrs not in seen:
            seen.append(one.graph.nodes[0].attrs)
            yield one.graph
