"""Makes the same graph with tensors as large as those of models, for measurements of its speed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..core.graph import Graph
from ..operators.record import TypeRuleError
from .openings import Growing, growing
from .resizing import resized

#: The most elements that the values of a graph may have together.
MOST = 1 << 18


def enlarged(graph: Graph) -> Iterator[Graph]:
    """Yields larger graphs of the same nodes: with all axes grown, then with those of inputs alone.

    The axes grow evenly, to powers of two, as long as no result becomes smaller (as it does with a
    larger kernel) and the values have no more than MOST elements. The batch grows only if nothing
    else can. Constants whose elements are given keep their size.
    """
    movable = tuple(c for c in graph.constants if c.data is None)
    given = tuple(c for c in graph.constants if c.data is not None)
    as_inputs = replace(graph, inputs=(*graph.inputs, *movable), constants=given)
    for start in [as_inputs, graph] if movable else [graph]:
        grown = _grown(start)
        if grown is not None:
            types = {source.name: source.type for source in grown.inputs}
            yield replace(
                graph, nodes=grown.nodes,
                inputs=tuple(replace(s, type=types[s.name]) for s in graph.inputs),
                constants=tuple(replace(c, type=types.get(c.name, c.type)) for c in graph.constants),
            )


def _grown(graph: Graph) -> Graph | None:
    """Returns the graph with larger inputs; None if none can grow."""
    classes = growing(graph)
    batch = (graph.inputs[0].name, 0) if graph.inputs else None
    others = [one for one in classes if batch not in one.axes]
    grown = graph
    left = others or classes
    sizes = {one: one.size for one in left}
    while left:
        one = min(left, key=lambda c: sizes[c])
        size = one.at_least(1 << sizes[one].bit_length())
        larger = _larger(graph, {**sizes, one: size})
        if larger is None or _shrinks(grown, larger):
            left = [other for other in left if other is not one]
            continue
        sizes[one], grown = size, larger
    return grown if grown is not graph else None


def _larger(graph: Graph, sizes: dict[Growing, int]) -> Graph | None:
    try:
        extents = {axis: size for one, size in sizes.items() for axis in one.axes}
        larger = resized(graph, extents, by_value=True)
    except TypeRuleError:
        return None
    return larger if larger.elements <= MOST else None


def _shrinks(before: Graph, after: Graph) -> bool:
    """Returns whether a result has fewer elements than before."""
    pairs = zip(before.nodes, after.nodes)
    return any(a.size > b.size for one, other in pairs for a, b in zip(one.types, other.types))
