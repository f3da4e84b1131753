"""Parts of a whole model as graphs of their own: its regions, its operators, with its numbers or others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.graph import Graph, Source
from ..core.parts import part
from .model_import import Imported

Arrays = Mapping[str, np.ndarray]
#: The most operators of a graph that the derived bound judges well, and of a piece of a larger one.
FEW_NODES = 8
#: The most elements of a constant, such as a scale, that a graph of one operator keeps.
_KEPT = 64


def some(imported: Imported, positions: Collection[int]) -> Graph:
    """Returns the operators at these positions of a model as a graph, with their small constants. Operators
    that differ in the names of their values alone make the same graph."""
    graph = part(imported.graph, positions)
    graph = replace(graph, outputs=graph.outputs or graph.nodes[-1].outputs[:1])
    constants = tuple(
        replace(s, data=_listed(imported.constants[s.name])) if s.type.size <= _KEPT else s
        for s in graph.constants
    )
    return _renamed(replace(graph, constants=constants), numbers=True)


def distinct_regions(graph: Graph, placement: Sequence[int | None]) -> Iterator[Graph]:
    """Yields the regions of a model as graphs, in the order of computation, each form once; not a region
    that is the whole model."""
    seen: set[bytes] = set()
    for region in dict.fromkeys(place for place in placement if place is not None):
        positions = {n for n, place in enumerate(placement) if place == region}
        if len(positions) == len(graph.nodes):
            return
        found = part(graph, positions)
        kind = form(found)
        if kind not in seen:
            seen.add(kind)
            yield found


def pieces(graph: Graph) -> Iterator[Graph]:
    """Yields a graph in pieces of FEW_NODES operators that follow each other."""
    for first in range(0, len(graph.nodes), FEW_NODES):
        yield part(graph, set(range(first, min(first + FEW_NODES, len(graph.nodes)))))


def form(graph: Graph) -> bytes:
    """Returns what graphs have in common that differ in the names and the numbers of their values."""
    return _renamed(graph, numbers=False).digest


def _renamed(graph: Graph, numbers: bool) -> Graph:
    """Returns a graph with names that follow from its form.

    numbers: whether constants keep the elements that are given for them.
    """
    names: dict[str, str] = {}

    def renamed(name: str) -> str:
        return names.setdefault(name, f"n{len(names)}")

    def source(s: Source) -> Source:
        return Source(renamed(s.name), s.type, seed=1, data=s.data if numbers else None)

    inputs, constants = (tuple(map(source, sources)) for sources in (graph.inputs, graph.constants))
    nodes = tuple(
        replace(n, inputs=tuple(map(renamed, n.inputs)), outputs=tuple(map(renamed, n.outputs)))
        for n in graph.nodes
    )
    return Graph(inputs, constants, nodes, tuple(map(renamed, graph.outputs)))


def drawn(graph: Graph, arrays: Arrays) -> Graph:
    """Returns a graph whose inputs and constants are drawn from the ranges that they have in the model."""

    def source(s: Source, number: int) -> Source:
        numbers = arrays[s.name].astype(np.float64)
        finite = numbers[np.isfinite(numbers)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (s.low, s.high)
        return replace(s, low=low, high=high, seed=number + 1)

    inputs = tuple(source(s, n) for n, s in enumerate(graph.inputs))
    constants = tuple(source(s, n + len(inputs)) for n, s in enumerate(graph.constants))
    return replace(graph, inputs=inputs, constants=constants)


def held(graph: Graph, arrays: Mapping[str, np.ndarray]) -> Graph:
    """Returns a graph that holds the numbers of its inputs and constants."""

    def source(s: Source) -> Source:
        return replace(s, data=_listed(arrays[s.name]))

    inputs, constants = (tuple(map(source, sources)) for sources in (graph.inputs, graph.constants))
    return replace(graph, inputs=inputs, constants=constants)


def _listed(array: np.ndarray) -> Any:
    """Returns an array as nested lists. JSON has no number for NaN and infinities, which become texts."""
    if array.dtype.kind in "iub":
        return array.tolist()

    def number(value: Any) -> Any:
        if isinstance(value, list):
            return [number(v) for v in value]
        return value if np.isfinite(value) else str(value)

    return number(array.astype(np.float64).tolist())
