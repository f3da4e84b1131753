"""One operator several times on the same operands, each time with another attribute."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.graph import Graph, TensorType
from ..operators.record import Operator
from .builder import Builder
from .single import by_default, class_names

#: Classes of a parameter that are tried beside its default.
CLASSES = 2


def several_forms(builder: Builder, op: Operator, lead: str) -> list[str]:
    """Adds an operator with all parameters at their defaults, and with a class of one of them off it in turn;
    all read that value, and weights of one type are one weight. Their results; none where there is nothing to
    tell apart.

    What a compiler takes for the same, by a key that lacks an attribute, it computes once (class 44)."""
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
    """Graphs of the operator alone: by default, then with one class of one parameter; no attributes twice."""
    forced: list[dict[str, str]] = [{}]
    for position, parameter in enumerate(op.parameters):
        labels = class_names(op, position, x.dtype)
        forced += ({parameter.name: label} for label in labels[1 : 1 + CLASSES])
    seen = []
    for classes in forced:
        made = by_default(op, x, classes)
        if made is not None and made.graph.nodes[0].attrs not in seen:
            seen.append(made.graph.nodes[0].attrs)
            yield made.graph
