"""Expected values and error bounds of a graph, from the reference kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..core.graph import Graph
from ..reference_kernels import FULL, Bounded, Precision, apply, exact
from .accumulator_error import Fusion
from .folding_error import Folding


def evaluate(
    graph: Graph,
    arrays: Mapping[str, np.ndarray],
    precision: Precision = FULL,
    lowered: Sequence[bool] | None = None,
) -> list[Bounded]:
    """The graph's outputs. `arrays`: every input and constant by name, in its own dtype.

    precision: what the target declares. lowered: for each node, whether the target may run it; by default
    it runs all of them. Raises KeyError for an operator without a kernel.
    """
    lowered = [True] * len(graph.nodes) if lowered is None else lowered
    values: dict[str, Bounded] = {
        s.name: exact(arrays[s.name], s.type.dtype) for s in graph.sources()
    }
    folding, fusion = Folding(graph), Fusion(graph, precision)
    with np.errstate(all="ignore"):
        for node, taken in zip(graph.nodes, lowered, strict=True):
            inputs = [values[i] for i in node.inputs]
            first, *others = apply(node.op, inputs, node.attrs, precision if taken else FULL)
            first = folding.widen(node, values, first)
            if taken:
                first = fusion.widen(node, values, first)
            values.update(zip(node.outputs, (first, *others)))
    return [values[o] for o in graph.outputs]
