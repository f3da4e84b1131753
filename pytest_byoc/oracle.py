"""Expected values and error bounds of a graph, from the reference kernels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reference_kernels import KERNELS, Bounded, exact

from .folding import Folding
from .graph import Graph


def evaluate(graph: Graph, arrays: Mapping[str, np.ndarray]) -> list[Bounded]:
    """The graph's outputs. `arrays`: every input and constant by name, in its own dtype.

    Raises KeyError for an operator without a kernel.
    """
    values: dict[str, Bounded] = {
        s.name: exact(arrays[s.name], s.type.dtype) for s in graph.sources()
    }
    folding = Folding(graph)
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            result = KERNELS[node.op]([values[i] for i in node.inputs], node.attrs)
            first, *others = result if isinstance(result, tuple) else (result,)
            values.update(zip(node.outputs, (folding.widen(node, values, first), *others)))
    return [values[o] for o in graph.outputs]
