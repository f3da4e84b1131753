"""The same graphs with batches of one, for targets that take no larger ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.graph import Graph, Node, Source, TensorType
from .parts import again, by_parts, data_sources, with_shape

#: Attributes that name extents of the result.
_EXTENTS = ("newshape", "shape")


def batch_of_one(graph: Graph, ir: str) -> Graph | None:
    """The graph with one element along the first axis of whatever stands for data and has two axes or more.
    Parts of which a type rule does not take that stay as they are. None where all do."""
    return by_parts(graph, _converted)


def _converted(graph: Graph) -> Graph:
    data = data_sources(graph)

    def source(given: Source) -> Source:
        if given.name not in data or given.type.rank < 2:
            return given
        return with_shape(given, (1, *given.type.shape[1:]), lambda elements: elements[:1])

    def attrs(node: Node, operands: Sequence[TensorType]) -> dict[str, Any]:
        batch = graph.type_of(node.inputs[0]).shape[:1]
        found = dict(node.attrs)
        for name in _EXTENTS:
            # One that names the batch among them.
            if batch and isinstance(found.get(name), tuple) and found[name][:1] == batch:
                found[name] = (*operands[0].shape[:1], *found[name][1:])
        return found

    return again(graph, source, attrs)
