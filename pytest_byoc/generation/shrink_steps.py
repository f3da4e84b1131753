"""Makes a failing graph smaller while it keeps failing in the same way.

The graph itself is changed, not the choices it was generated from, so that a few examinations are
enough: first each node alone, then fewer outputs, shorter paths and simpler values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..core.graph import Graph, Node, Source
from .adapting.parts import parts, restricted
from .plain import alone, differences, distance, plainer, retyped, without_attribute

#: The largest number of examinations, and of seconds, for shrinking one graph.
EXAMINATIONS, SECONDS = 80, 60.0
#: Returns whether a graph fails like the one to be reduced.
Fails = Callable[[Graph], bool]


class Reduced(NamedTuple):
    """The result of a reduction. finished: True if every step was tried within the limits; then the
    graph does not fail in this way without any one of its operators."""

    graph: Graph
    finished: bool


def reduce(
    graph: Graph, fails: Fails, ir: str, examinations: int = EXAMINATIONS, seconds: float = SECONDS,
    known: Callable[[Graph], bool] = lambda graph: False,
) -> Reduced:
    """Returns the smallest failing graph found within a number of examinations and a time.

    `graph` itself must fail. The steps and their order depend on the graph alone; they end when no
    simpler graph fails. known: returns whether the failure of a single node was reported before;
    such a node is not made simpler again.
    """
    deadline = time.monotonic() + seconds
    tried = {graph}
    finished = True

    def attempt(candidate: Graph) -> bool:
        nonlocal finished
        # All that is left may be an output that is an input, or nodes that nothing reads: no graphs.
        if candidate in tried or not candidate.nodes or not candidate.outputs:
            return False
        if len(tried) > examinations or time.monotonic() > deadline:
            finished = False
            return False
        tried.add(candidate)
        return fails(candidate)

    halves = _halves(graph)
    while (half := next(filter(attempt, halves), None)) is not None:
        graph, halves = half, _halves(half)
    smaller = next((g for g in _single_nodes(graph) if attempt(g)), None)
    if smaller is not None:
        if known(smaller):
            return Reduced(smaller, finished)
        graph = smaller
    progress = True
    while progress:
        progress = False
        weight = _weight(graph, ir)
        for candidate in _steps(graph, ir):
            if _weight(candidate, ir) < weight and attempt(candidate):
                graph, progress = candidate, True
                break
    return Reduced(graph, finished)


def _weight(graph: Graph, ir: str) -> tuple[int, ...]:
    """Returns the quantities to minimise, the most important first."""
    return (
        len(graph.nodes),
        len(graph.outputs),
        _differing(graph, ir),
        distance(graph, ir) if len(graph.nodes) == 1 else 0,
        len(graph.inputs) + len(graph.constants),
        sum(t.size for n in graph.nodes for t in n.types) + sum(s.type.size for s in graph.sources()),
        sum(s.seed != 0 for s in graph.sources()),
    )


def _differing(graph: Graph, ir: str) -> int:
    """Returns how much differs from the simplest cases; for several nodes attributes alone."""
    if len(graph.nodes) == 1:
        return differences(graph, ir).number
    return sum(len(differences(alone(graph, node), ir).attributes) for node in graph.nodes)


def _halves(graph: Graph) -> list[Graph]:
    """Returns the graph's first and second half, if it consists of parts that share no value: many
    structures do."""
    connected = list(parts(graph))
    middle = len(connected) // 2
    return [_several(graph, some) for some in (connected[:middle], connected[middle:])] if middle else []


def _several(graph: Graph, some: Sequence[Graph]) -> Graph:
    """Returns the graph with only some of its parts."""
    names = {source.name for part in some for source in part.sources()}
    return restricted(graph, names.union(o for part in some for node in part.nodes for o in node.outputs))


def _single_nodes(graph: Graph) -> Iterator[Graph]:
    """Yields each node as a graph; of nodes that differ in the names and elements of their operands
    alone, the first."""
    if len(graph.nodes) < 2:
        return
    constants = {source.name for source in graph.constants}
    seen: list[object] = []
    # Operators with many attributes come first: they are wrong more often than elementwise ones.
    order = sorted(range(len(graph.nodes)), key=lambda i: -len(graph.nodes[i].attrs))
    for i in order:
        node = graph.nodes[i]
        operands = [
            (graph.type_of(name), name in constants, node.inputs.index(name)) for name in node.inputs
        ]
        if (kind := (node.op, node.attrs, operands, _given(graph, node))) not in seen:
            seen.append(kind)
            yield alone(graph, node)


def _given(graph: Graph, node: Node) -> list[Source]:
    """Returns the operands that have given elements."""
    return [s for s in graph.sources() if s.name in node.inputs and s.data is not None]


def _steps(graph: Graph, ir: str) -> Iterator[Graph]:
    """Yields graphs that are one step simpler, the boldest first."""
    yield from _fewer_nodes(graph)
    if len(graph.nodes) == 1:
        yield from plainer(graph, ir)
    else:
        yield from _plainer_nodes(graph, ir)
    if any(s.seed for s in graph.sources()):
        yield replace(
            graph,
            inputs=tuple(replace(s, seed=0) for s in graph.inputs),
            constants=tuple(replace(s, seed=0) for s in graph.constants),
        )


def _plainer_nodes(graph: Graph, ir: str) -> Iterator[Graph]:
    """Yields graphs with one attribute at its default, then graphs with one extent made 1 or 2
    wherever it occurs."""
    for position, node in enumerate(graph.nodes):
        single = alone(graph, node)
        for name in differences(single, ir).attributes:
            for plain in without_attribute(single, name, ir):
                yield from retyped(graph, {}, {position: plain})
    sources = [s for s in graph.sources() if s.data is None]
    for extent in sorted({n for s in sources for n in s.type.shape if n > 1}, reverse=True):
        for n in (1, 2):
            if n < extent:
                yield from retyped(graph, {s.name: _shrunk(s, extent, n) for s in sources}, {})


def _shrunk(source: Source, extent: int, n: int) -> Source:
    shape = tuple(n if m == extent else m for m in source.type.shape)
    return replace(source, type=replace(source.type, shape=shape))


def _fewer_nodes(graph: Graph) -> Iterator[Graph]:
    for output in dict.fromkeys(graph.outputs):
        if len(graph.outputs) > 1:
            yield replace(graph, outputs=(output,)).needed()
    if graph.needed() != graph:
        yield graph.needed()
    for i in range(len(graph.outputs)):
        if len(graph.outputs) > 1:
            yield replace(graph, outputs=graph.outputs[:i] + graph.outputs[i + 1 :]).needed()
    for node in reversed(graph.nodes):
        # Its results become inputs; all that was only there for the node goes too.
        yield _without(graph, node)
    for node in graph.nodes:
        for operand in dict.fromkeys(node.inputs):
            if len(node.outputs) == 1 and graph.type_of(operand) == node.types[0]:
                yield _rewired(graph, node, operand)
    for node in graph.nodes:
        # The graph ends at this node; the nodes behind it go.
        if node is not graph.nodes[-1]:
            yield replace(graph, outputs=node.outputs).needed()


def _without(graph: Graph, node: Node) -> Graph:
    """Returns the graph without the node, whose results are inputs."""
    rest = tuple(n for n in graph.nodes if n is not node)
    sources = tuple(Source(o, t, seed=1) for o, t in zip(node.outputs, node.types))
    return Graph(graph.inputs + sources, graph.constants, rest, graph.outputs).needed()


def _rewired(graph: Graph, node: Node, operand: str) -> Graph:
    """Returns the graph without the node; its readers read one of its operands instead."""
    (gone,) = node.outputs

    def swap(name: str) -> str:
        return operand if name == gone else name

    nodes = tuple(
        replace(n, inputs=tuple(swap(i) for i in n.inputs)) for n in graph.nodes if n is not node
    )
    return replace(graph, nodes=nodes, outputs=tuple(swap(o) for o in graph.outputs)).needed()
