"""A pattern's graph twice in one: each instance is to keep its own constants."""

from __future__ import annotations

from dataclasses import replace

from ...core.graph import Graph, Source

#: What the second instance's values are called after, and how far its seeds are from those of the first.
_PREFIX, _SEEDS = "twice_", 1000


def twice(graph: Graph) -> Graph:
    """The graph, and the same again behind it, with other constants and inputs of its own but one: an input
    of an output's type that takes any numbers is that output; else both read the first input. All results are
    returned."""
    outputs = {graph.type_of(name): name for name in reversed(graph.outputs)}
    anything = [s for s in graph.inputs if (s.low, s.high) == (Source.low, Source.high)]
    behind = next((s for s in anything if s.type in outputs), None)
    names = {s.name: _PREFIX + s.name for s in graph.sources()}
    if behind is not None:
        names[behind.name] = outputs[behind.type]
    elif graph.inputs:
        names[graph.inputs[0].name] = graph.inputs[0].name
    names.update((made, _PREFIX + made) for node in graph.nodes for made in node.outputs)

    def again(values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names[name] for name in values)

    def own(sources: tuple[Source, ...]) -> tuple[Source, ...]:
        found = (s for s in sources if names[s.name] == _PREFIX + s.name)
        return tuple(replace(s, name=names[s.name], seed=s.seed + _SEEDS) for s in found)

    return Graph(
        graph.inputs + own(graph.inputs),
        graph.constants + own(graph.constants),
        graph.nodes
        + tuple(replace(n, inputs=again(n.inputs), outputs=again(n.outputs)) for n in graph.nodes),
        graph.outputs + again(graph.outputs),
    )
