"""Other shapes for the operands of elementwise steps: every way in which one is broadcast.

A codegen often takes such an operand for a bias along the last axis, or along the channels, and
looks at the number of its elements alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...core.graph import Graph, Source, TensorType
from ...operators import OPERATORS
from ..operand_classes import operand_classes
from ..retyping import with_source


def operand_shapes(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """Yields (label, graph) with another shape of a source that an elementwise step reads beside a
    computed value, or beside another source: one for each class of broadcasting."""
    sources = {source.name: source for source in graph.sources()}
    for node in graph.nodes:
        if len(node.inputs) != 2 or not _broadcasts(node.op):
            continue
        for name, beside in (node.inputs[::-1], node.inputs):
            source = sources.get(name)
            # If both operands are sources, the second is changed, or the first one if it is a constant.
            alone = beside not in sources or beside == node.inputs[0] or name in _names(graph.constants)
            if source is None or beside == name or not alone:
                continue
            for word, shape in operand_classes(graph.type_of(beside).shape):
                changed = _with_shape(graph, source, shape) if shape != source.type.shape else None
                if changed is not None:
                    yield f"{name}_{word}", changed


def _broadcasts(operator: str) -> bool:
    return any(parameter.name == "other_shape" for parameter in OPERATORS[operator].parameters)


def _names(found: tuple[Source, ...]) -> frozenset[str]:
    return frozenset(source.name for source in found)


def _with_shape(graph: Graph, source: Source, shape: tuple[int, ...]) -> Graph | None:
    """Returns the graph with that shape of a source; None if an operator does not accept it. Given
    elements stay where all are equal."""
    data = source.data if isinstance(source.data, (list, tuple)) else [source.data]
    same = data[0] if source.data is not None and len(set(map(str, data))) == 1 else None
    size = TensorType(shape, source.type.dtype).size
    given = None if same is None else same if not shape else [same] * size
    return with_source(graph, replace(source, type=TensorType(shape, source.type.dtype), data=given))
