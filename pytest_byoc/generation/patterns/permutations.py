"""Other permutations inside a pattern, which no type behind them shows.

A codegen often assumes the permutation of the usual formula, such as the last two axes swapped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

from ...core.graph import Graph, Node, Source, TensorType
from ..retyping import resourced

#: The highest rank of which all permutations are made; of higher ones, those that move few axes.
_ALL = 4


def other_permutations(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """Yields (label, graph) with another permutation in a transpose, whose result keeps its type:
    the source before it has its axes in another order, or axes of one length change places."""
    sources = {source.name: source for source in graph.sources()}
    for position, node in enumerate(graph.nodes):
        if node.op != "transpose":
            continue
        (name,), result = node.inputs, node.types[0].shape
        rank = len(result)
        now = _axes(node, rank)
        alone = name in sources and sum(node.inputs.count(name) for node in graph.nodes) == 1
        for axes in permutations(range(rank)):
            if axes == now or (rank > _ALL and sum(a != b for a, b in zip(axes, now)) > 3):
                continue
            shape = tuple(result[axes.index(axis)] for axis in range(rank))
            if shape != graph.type_of(name).shape and not alone:
                continue
            other = replace(node, attrs={**node.attrs, "axes": axes})
            changed = _with(graph, position, other, sources.get(name), shape)
            if changed is not None:
                yield "".join(map(str, axes)), changed


def _axes(node: Node, rank: int) -> tuple[int, ...]:
    axes = node.attrs["axes"]
    return tuple(range(rank))[::-1] if axes is None else tuple(axis % rank for axis in axes)


def _with(
    graph: Graph, position: int, node: Node, source: Source | None, shape: tuple[int, ...]
) -> Graph | None:
    def change(s: Source) -> Source:
        if source is None or s.name != source.name or s.type.shape == shape:
            return s
        return replace(s, type=TensorType(shape, s.type.dtype), data=None)

    return resourced(graph, change, {position: node})
