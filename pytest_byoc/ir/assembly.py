"""A graph put together in an IR, value by value.

This is the one place that says which expression is shared and which is made once more: the workers' lowering
makes TVM's expressions by it, and `report/source.py` the lines of Python that make the same ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.graph import Graph, Node, Source
from ..operators import OPERATORS

if TYPE_CHECKING:
    from typing import Protocol
else:
    # Python 3.8 has it; nothing asks for it at run time.
    Protocol = object


class NotLowered(ValueError):
    """An operator that the IR does not have; the message says which."""


class Maker(Protocol):
    """Makes the expressions of one graph."""

    @property
    def ops(self) -> Any:
        """The namespace that the operator records' lowerings are called with."""

    def input(self, source: Source) -> Any:
        """A parameter of the function."""

    def constant(self, source: Source) -> Any:
        """A constant."""

    def result(self, node: Node, lowered: Any) -> Any:
        """The value of a node, of which `lowered` is what its lowering returned: a tuple where
        `is_tuple(node)`."""

    def field(self, name: str, whole: Any, index: int) -> Any:
        """One of the values of a tuple, whose name is `name`."""


def is_tuple(node: Node) -> bool:
    """Whether TVM returns the outputs of a node as a tuple."""
    return len(node.outputs) > 1 or OPERATORS[node.op].tuple_result


def assemble(graph: Graph, ir: str, maker: Maker) -> list[Any]:
    """Makes a graph; the values of its outputs. Raises NotLowered."""
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
        types = [graph.type_of(name) for name in node.inputs]
        lowered = lowering(maker.ops, [value(name) for name in node.inputs], node.attrs, types)
        result = maker.result(node, lowered)
        if not is_tuple(node):
            values[node.outputs[0]] = result
            continue
        for index, name in enumerate(node.outputs):
            if ir == "relay":
                # Whoever writes `parts[0]` twice makes two nodes of it, as TVM's frontends do.
                fields[name] = result, index
            else:
                # A binding has a name, and whoever reads it reads that.
                values[name] = maker.field(name, result, index)
    return [value(name) for name in graph.outputs]
