"""Lowers a graph to an IR, value by value.

Only this file decides which expressions are shared and which are built twice. The workers use it to
build TVM's expressions, and `report/source.py` to write the Python lines that build the same ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.graph import Graph, Node, Source, TensorType
from ..operators import OPERATORS

if TYPE_CHECKING:
    from typing import Protocol
else:
    # Only type checkers need `typing.Protocol`; at run time an ordinary base class is enough.
    Protocol = object


class NotLowered(ValueError):
    """Raised for an operator that the IR does not have; the message names it."""


class Maker(Protocol):
    """A builder of the expressions of one graph."""

    @property
    def ops(self) -> Any:
        """Returns the namespace of operators that lowerings of operator records are called with."""

    def input(self, source: Source) -> Any:
        """Returns a parameter of the function."""

    def constant(self, source: Source) -> Any:
        """Returns a constant."""

    def type_of(self, value: Any, declared: TensorType) -> TensorType:
        """Returns the type of an operand, for an operator's lowering.

        declared: its type in the graph. An open extent is an expression of TVM's, if the IR has one.
        """

    def result(self, node: Node, lowered: Any) -> Any:
        """Returns the value of a node: a tuple where `is_tuple(node)`.

        lowered: the result of the node's lowering.
        """

    def field(self, name: str, whole: Any, index: int) -> Any:
        """Returns a field of a tuple. name: the name of the value in the graph."""


def is_tuple(node: Node) -> bool:
    """Returns whether TVM returns the outputs of a node as a tuple."""
    return len(node.outputs) > 1 or OPERATORS[node.op].tuple_result


def assemble(graph: Graph, ir: str, maker: Maker) -> list[Any]:
    """Builds a graph, and returns the values of its outputs. Raises NotLowered."""
    values: dict[str, Any] = {}
    fields: dict[str, tuple[Any, int]] = {}

    def value(name: str) -> Any:
        return maker.field(name, *fields[name]) if name in fields else values[name]

    for source in graph.inputs:
        values[source.name] = maker.input(source)
    for source in graph.constants:
        values[source.name] = maker.constant(source)
    for node in graph.nodes:
        lowering = getattr(OPERATORS.get(node.op), ir, None)
        if lowering is None:
            raise NotLowered("operator %s has no lowering to %s" % (node.op, ir))
        operands = [value(name) for name in node.inputs]
        types = [maker.type_of(o, graph.type_of(name)) for o, name in zip(operands, node.inputs)]
        lowered = lowering(maker.ops, operands, node.attrs, types)
        result = maker.result(node, lowered)
        if not is_tuple(node):
            values[node.outputs[0]] = result
            continue
        for index, name in enumerate(node.outputs):
            if ir == "relay":
                # Each use of a field gets a node of its own, as in modules of TVM's frontends.
                fields[name] = result, index
            else:
                # In Relax a field is bound to a variable once, and all uses read the variable.
                values[name] = maker.field(name, result, index)
    return [value(name) for name in graph.outputs]
