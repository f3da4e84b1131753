"""Makes a failing graph smaller while it keeps failing in the same way.

Works on the graph itself rather than on the choices it was generated from, so that a handful of
examinations is enough: first each node alone, then fewer outputs, shorter paths, simpler values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..graph import Graph, Node, Source
from .systematic import cases

#: Plainer cases that are tried in place of a systematic one.
PLAINER = 12
#: Whether a graph fails like the one to be reduced.
Fails = Callable[[Graph], bool]


class Reduced(NamedTuple):
    """finished: whether all that is tried was, within what was allowed: without any one of its operators the
    graph does not fail so."""

    graph: Graph
    finished: bool


def reduce(
    graph: Graph, fails: Fails, ir: str, examinations: int = 80, seconds: float = 60.0,
    known: Callable[[Graph], bool] = lambda graph: False,
) -> Reduced:
    """The smallest failing graph found within a number of examinations and a time.

    `graph` itself must fail. What is tried, and in which order, depends on the graph alone. known: whether
    the failure of a single node has been told of: it is not made simpler once more.
    """
    deadline = time.monotonic() + seconds
    given = graph
    tried = {graph}
    finished = True

    def attempt(candidate: Graph) -> bool:
        nonlocal finished
        if candidate in tried:
            return False
        if len(tried) > examinations or time.monotonic() > deadline:
            finished = False
            return False
        tried.add(candidate)
        return fails(candidate)

    smaller = next((g for g in _single_nodes(graph) if attempt(g)), None)
    if smaller is not None:
        if known(smaller):
            return Reduced(smaller, finished)
        graph = smaller
    progress = True
    while progress:
        progress = False
        for candidate in _steps(graph):
            if _weight(candidate) < _weight(graph) and attempt(candidate):
                graph, progress = candidate, True
                break
    if len(graph.nodes) == 1:
        # A systematic case of the operator is the simplest example of all; simpler ones than one of them
        # are tests of their own.
        found = [c.graph for c in cases([graph.nodes[0].op], ir) if not _without_elements(c.graph)]
        if given in found:
            simpler = _plainer(graph, found)
        else:
            simpler = [case for case in found if _weight(case) < _weight(graph)]
        graph = next((case for case in simpler if attempt(case)), graph)
    return Reduced(graph, finished)


def _plainer(graph: Graph, found: Sequence[Graph]) -> list[Graph]:
    """Of the cases of an operator, its simplest one first, a few that have less off the default than one of
    them, and nothing else, each something else: what is examined early has much off it at once."""
    default = found[0].nodes[0].attrs

    def off(case: Graph) -> set[str]:
        return {name for name, value in case.nodes[0].attrs.items() if value != default.get(name)}

    mine, kinds = off(graph), dict[frozenset[str], Graph]()
    for case in found:
        if off(case) < mine:
            kinds.setdefault(frozenset(off(case)), case)
    return [kinds[kind] for kind in sorted(kinds, key=len)][:PLAINER]


def _without_elements(graph: Graph) -> bool:
    """Whether it is small for holding nothing: a trap of its own, and no simple example."""
    return any(s.type.size == 0 for s in graph.sources())


def _weight(graph: Graph) -> tuple[int, ...]:
    """What is to become small, most important first."""
    return (
        len(graph.nodes),
        len(graph.outputs),
        len(graph.inputs) + len(graph.constants),
        sum(t.size for n in graph.nodes for t in n.types) + sum(s.type.size for s in graph.sources()),
        sum(s.seed != 0 for s in graph.sources()),
    )


def _single_nodes(graph: Graph) -> Iterator[Graph]:
    if len(graph.nodes) < 2:
        return
    # Operators that are not elementwise first: they are wrong more often.
    order = sorted(range(len(graph.nodes)), key=lambda i: -len(graph.nodes[i].attrs))
    for i in order:
        yield _isolate(graph, graph.nodes[i])


def _isolate(graph: Graph, node: Node) -> Graph:
    """The node alone; operands other nodes made become inputs of the same type."""
    sources = {s.name: s for s in graph.sources()}
    constants = {s.name for s in graph.constants}
    operands = {i: sources.get(i) or Source(i, graph.type_of(i), seed=1) for i in node.inputs}
    return Graph(
        tuple(s for n, s in operands.items() if n not in constants),
        tuple(s for n, s in operands.items() if n in constants),
        (node,),
        node.outputs,
    )


def _steps(graph: Graph) -> Iterator[Graph]:
    """Graphs one step simpler, boldest first."""
    for output in dict.fromkeys(graph.outputs):
        if len(graph.outputs) > 1:
            yield replace(graph, outputs=(output,)).needed()
    if graph.needed() != graph:
        yield graph.needed()
    for i in range(len(graph.outputs)):
        if len(graph.outputs) > 1:
            yield replace(graph, outputs=graph.outputs[:i] + graph.outputs[i + 1 :]).needed()
    for node in reversed(graph.nodes):
        # Its results come from outside: the node goes, and all that was only there for it.
        yield from _without(graph, node)
    for node in graph.nodes:
        for operand in dict.fromkeys(node.inputs):
            if len(node.outputs) == 1 and graph.type_of(operand) == node.types[0]:
                yield from _rewired(graph, node, operand)
    for node in graph.nodes:
        # The last nodes go: the graph ends here.
        if node is not graph.nodes[-1]:
            yield replace(graph, outputs=node.outputs).needed()
    if any(s.seed for s in graph.sources()):
        yield replace(
            graph,
            inputs=tuple(replace(s, seed=0) for s in graph.inputs),
            constants=tuple(replace(s, seed=0) for s in graph.constants),
        )


def _without(graph: Graph, node: Node) -> Iterator[Graph]:
    rest = tuple(n for n in graph.nodes if n is not node)
    if not rest:
        return
    made = tuple(Source(o, t, seed=1) for o, t in zip(node.outputs, node.types))
    smaller = Graph(graph.inputs + made, graph.constants, rest, graph.outputs).needed()
    if smaller.nodes:
        yield smaller


def _rewired(graph: Graph, node: Node, operand: str) -> Iterator[Graph]:
    """Consumers of the node read one of its operands instead."""
    (gone,) = node.outputs

    def swap(name: str) -> str:
        return operand if name == gone else name

    nodes = tuple(
        replace(n, inputs=tuple(swap(i) for i in n.inputs)) for n in graph.nodes if n is not node
    )
    smaller = replace(graph, nodes=nodes, outputs=tuple(swap(o) for o in graph.outputs)).needed()
    if smaller.nodes:
        yield smaller
