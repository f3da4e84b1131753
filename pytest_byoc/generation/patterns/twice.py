"""Puts a pattern's graph into one graph twice; each instance has to keep its own constants."""

from __future__ import annotations

from dataclasses import replace

from ...core.graph import Graph, Source

#: The prefix of the second instance's names, and the distance of its seeds from the first's.
_PREFIX, _SEEDS = "twice_", 1000


def twice(graph: Graph) -> Graph:
    """Returns the graph with a second instance of itself, which has other constants and its own
    inputs, except for one. If an input takes any numbers and has the type of an output, it is
    replaced by that output of the first instance; otherwise both instances read the first input.
    All results are outputs."""
    outputs = {graph.type_of(name): name for name in reversed(graph.outputs)}
    anything = [s for s in graph.inputs if (s.low, s.high) == (Source.low, Source.high)]
    behind = next((s for s in anything if s.type in outputs), None)
    names = {s.name: _PREFIX + s.name for s in graph.sources()}
    if behind is not None:
        names[behind.name] = outputs[behind.type]
    elif graph.inputs:
        names[graph.inputs[0].name] = graph.inputs[0].name
    names.update((output, _PREFIX + output) for node in graph.nodes for output in node.outputs)

    def again(values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names[name] for name in values)

    def own(sources: tuple[Source, ...]) -> tuple[Source, ...]:
        kept = (s for s in sources if names[s.name] == _PREFIX + s.name)
        return tuple(replace(s, name=names[s.name], seed=s.seed + _SEEDS) for s in kept)

    return Graph(
        graph.inputs + own(graph.inputs),
        graph.constants + own(graph.constants),
        graph.nodes
        + tuple(replace(n, inputs=again(n.inputs), outputs=again(n.outputs)) for n in graph.nodes),
        graph.outputs + again(graph.outputs),
    )
