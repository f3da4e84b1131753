"""Adapts graphs to batches of one, for targets that offload no larger ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.graph import Graph, Node, Source, TensorType
from .parts import again, by_parts, data_sources, with_shape

#: Attributes that give extents of the result.
_EXTENTS = ("newshape", "shape")


def batch_of_one(graph: Graph, ir: str) -> Graph | None:
    """Returns the graph with one element along the first axis of the sources that stand for data
    and have at least two axes. Parts in which a type rule rejects that stay as they are; None if
    all parts do."""
    return by_parts(graph, _converted)


def _converted(graph: Graph) -> Graph:
    data = data_sources(graph)

    def source(given: Source) -> Source:
        if given.name not in data or given.type.rank < 2:
            return given
        return with_shape(given, (1, *given.type.shape[1:]), lambda elements: elements[:1])

    def attrs(node: Node, operands: Sequence[TensorType]) -> dict[str, Any]:
        batch = graph.type_of(node.inputs[0]).shape[:1]
        changed = dict(node.attrs)
        for name in _EXTENTS:
            # The attribute begins with the extent of the batch.
            if batch and isinstance(changed.get(name), tuple) and changed[name][:1] == batch:
                changed[name] = (*operands[0].shape[:1], *changed[name][1:])
            elif node.op == "reshape" and name in changed and operands[0].shape[:1] != batch:
                changed[name] = _divided(changed[name], *batch)
        return changed

    return again(graph, source, attrs)


def _divided(shape: tuple[int, ...], batch: int) -> tuple[int, ...]:
    """Returns the shape with the first extent that the batch divides divided by it, if there is one."""
    at = next((i for i, n in enumerate(shape) if n > 0 and n % batch == 0), None)
    return shape if at is None else (*shape[:at], shape[at] // batch, *shape[at + 1 :])
