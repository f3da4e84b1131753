"""What codegens may do with an accumulator of declared lower precision, as error: add to it what follows.

The bias, a residual or the offset of a batch normalisation may be one more term of a contraction's sum,
often the first: then every rounding of the accumulator is as large as that makes it. The bound of the
addition by itself knows nothing of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..core.graph import Graph, Node
from ..reference_kernels import Bounded, Precision
from ..reference_kernels.bounded import Arithmetic, accumulator, arithmetic, gamma
from ..reference_kernels.precision import computing
from .folding_error import along, contraction, facts_of, normalisation, normalises


@dataclass(frozen=True)
class Sum:
    """What an accumulator may hold: size, the sum of the magnitudes of its terms; terms, their number;
    elements, the dtype of the contraction's operands."""

    size: np.ndarray
    terms: np.ndarray
    elements: str


class Fusion:
    """Follows, through those nodes of a graph that the target runs, what its accumulators may hold."""

    def __init__(self, graph: Graph, precision: Precision) -> None:
        self._precision = precision
        self._constants = {s.name for s in graph.constants}
        self._sums: dict[str, Sum | Node] = {}

    def widen(self, node: Node, values: Mapping[str, Bounded], y: Bounded) -> Bounded:
        """The first result of a node that the target runs, with what adding in the accumulator adds."""
        if not y.is_float or not self._precision.accumulate_dtype:
            return y
        facts = facts_of(node)
        if facts is not None and facts.contraction:
            self._sums[node.outputs[0]] = node
            return y
        for position, name in enumerate(node.inputs):
            before = self._sum(name, values)
            moved = self._moved(node, position, values, y) if before else None
            if before is None or moved is None:
                continue
            scale, offset = moved
            kept = before.size * scale
            terms = before.terms if offset is None else before.terms + 1
            size = np.broadcast_to(kept if offset is None else kept + offset, y.shape)
            self._sums[node.outputs[0]] = Sum(size, np.broadcast_to(terms, y.shape), before.elements)
            if offset is not None:
                y = self._added(y, kept, size, before)
        return y

    def _moved(
        self, node: Node, position: int, values: Mapping[str, Bounded], y: Bounded
    ) -> tuple[np.ndarray | float, np.ndarray | None] | None:
        """What the terms of the operand at `position` are multiplied by, and what is added to them;
        None where that is not done in an accumulator."""
        others = [values[name] for i, name in enumerate(node.inputs) if i != position]
        facts = facts_of(node)
        if facts is not None and 1 - position in facts.addends:
            offset = np.abs(others[0].value) + np.where(others[0].ambiguous, 0.0, others[0].error)
            return 1.0, along(node, offset, y) if node.op == "nn.bias_add" else offset
        # A scale can be multiplied into the weights if it is a constant.
        scales = facts is not None and 1 - position in facts.factors
        if scales and node.inputs[1 - position] in self._constants:
            return np.abs(others[0].value), None
        if normalises(node, self._constants):
            scale, offset = normalisation(node, values, y)
            return np.abs(scale), np.abs(offset)
        return None

    def _added(self, y: Bounded, kept: np.ndarray, size: np.ndarray, before: Sum) -> Bounded:
        """gamma(n + 1) of all n + 1 terms; gamma(n) of the n before is in the bound already."""
        with computing(self._precision):
            sums: Arithmetic = accumulator(y.dtype, before.elements)
        if sums == arithmetic(y.dtype):
            return y
        extra = gamma(before.terms + 1, sums.u) * size - gamma(before.terms, sums.u) * kept + sums.lost
        unknown = np.isfinite(y.value) & ~(size * (1 + gamma(before.terms + 1, sums.u)) <= sums.largest)
        error = np.where(unknown, np.inf, y.error + np.where(np.isfinite(extra), extra, 0.0))
        return replace(y, error=error, ambiguous=y.ambiguous | unknown)

    def _sum(self, name: str, values: Mapping[str, Bounded]) -> Sum | None:
        """Evaluated when it is needed: it costs twice what the contraction does."""
        found = self._sums.get(name)
        if isinstance(found, Node):
            operands = [values[i] for i in found.inputs]
            sizes = [np.abs(o.value) + np.where(o.ambiguous, 0.0, o.error) for o in operands]
            terms = contraction(found, [np.ones(o.shape) for o in operands])
            found = self._sums[name] = Sum(contraction(found, sizes), terms, operands[0].dtype)
        return found
