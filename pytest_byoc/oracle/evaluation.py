"""Calculates the expected values of a graph with error bounds, by the reference kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..core.graph import Graph, Node
from ..operators import OPERATORS
from ..reference_kernels import FULL, KERNELS, Bounded, Precision, apply, exact
from .accumulator_error import Fusion
from .folding_error import Folding

#: The dtypes in which an average may be calculated, by the dtype of its result.
_WIDER = {"float16": "float32", "float32": "float64"}


class KernelError(Exception):
    """Raised if a reference kernel raises, so that nothing is known about a graph."""


def evaluate(
    graph: Graph,
    arrays: Mapping[str, np.ndarray],
    precision: Precision = FULL,
    lowered: Sequence[bool] | None = None,
) -> list[Bounded]:
    """Returns the graph's outputs with error bounds.

    arrays: every input and constant by name, in its own dtype. precision: the precision that the
    target declares. lowered: for each node, whether the target may run it, and so with that
    precision; by default it may run all of them. Raises KeyError for an operator without a kernel, and
    KernelError if a kernel raises.
    """
    found = values(graph, arrays, precision, lowered)
    return [found[o] for o in graph.outputs]


def values(
    graph: Graph,
    arrays: Mapping[str, np.ndarray],
    precision: Precision = FULL,
    lowered: Sequence[bool] | None = None,
    change: Callable[[Bounded], Bounded] = lambda result: result,
) -> dict[str, Bounded]:
    """Returns all values of the graph by name, with error bounds; raises as `evaluate` does.

    change: is applied to each result before others are computed from it.
    """
    lowered = [True] * len(graph.nodes) if lowered is None else lowered
    known: dict[str, Bounded] = {
        s.name: exact(arrays[s.name], s.type.dtype) for s in graph.sources()
    }
    folding, fusion = Folding(graph), Fusion(graph, precision)
    with np.errstate(all="ignore"):
        for node, offloaded in zip(graph.nodes, lowered, strict=True):
            inputs = [known[i] for i in node.inputs]
            first, *others = _applied(node, inputs, precision if offloaded else FULL)
            first = folding.widen(node, known, first)
            if offloaded:
                first = fusion.widen(node, known, first)
            first = _with_narrow(node, inputs, first)
            known.update(zip(node.outputs, map(change, (first, *others))))
    return known


def _applied(node: Node, inputs: Sequence[Bounded], precision: Precision) -> tuple[Bounded, ...]:
    """Returns the node's results; raises as `evaluate` does."""
    try:
        return apply(node.op, inputs, node.attrs, precision)
    except Exception as e:
        if node.op not in KERNELS:
            raise
        operands = ", ".join(str(x.shape) for x in inputs)
        message = f"the reference kernel of {node.op} raised {type(e).__name__} ({e}) for the shapes "
        raise KernelError(message + f"{operands} and the attributes {dict(node.attrs)}") from e


def _with_narrow(node: Node, inputs: Sequence[Bounded], result: Bounded) -> Bounded:
    """Marks the elements of an average that would be known if it were calculated in a wider dtype."""
    op, wider = OPERATORS.get(node.op), _WIDER.get(result.dtype, "")
    if op is None or not op.averages or not wider or not result.ambiguous.any():
        return result
    (wide, *_) = _applied(node, [replace(x, dtype=wider) for x in inputs], FULL)
    return replace(result, narrow=result.ambiguous & ~wide.ambiguous & np.isfinite(wide.value))
