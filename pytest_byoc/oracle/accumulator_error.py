"""Widens bounds for targets that add the operands of later nodes in a low-precision accumulator.

Such a target declares a lower precision of its accumulators. The bias, a residual or the offset of
a batch normalisation may be one more term of a contraction's sum, often the first. Every rounding
of the accumulator then grows with that term, which the bound of the addition alone does not cover.
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
    """The terms that an accumulator may hold for each element of a value.

    size: the sum of their magnitudes. terms: their number. elements: the dtype of the
    contraction's operands.
    """

    size: np.ndarray
    terms: np.ndarray
    elements: str


class Fusion:
    """Tracks the sums that the target's accumulators may hold through the nodes that it runs."""

    def __init__(self, graph: Graph, precision: Precision) -> None:
        self._precision = precision
        self._constants = {s.name for s in graph.constants}
        self._sums: dict[str, Sum | Node] = {}

    def widen(self, node: Node, values: Mapping[str, Bounded], y: Bounded) -> Bounded:
        """Returns the first result of a node that the target runs, with a wider error bound.

        The bound covers that the node's addition is made in the accumulator of a contraction
        before it. y: the result with the bound of the node alone.
        """
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
        """Returns the scale of the terms of the operand at `position`, and the offset they get.

        Both are magnitudes; the offset is None where nothing is added. The result is None where
        the node can't be computed in an accumulator. y: the node's first result.
        """
        others = [values[name] for i, name in enumerate(node.inputs) if i != position]
        facts = facts_of(node)
        if facts is not None and 1 - position in facts.addends:
            offset = np.abs(others[0].value) + np.where(others[0].ambiguous, 0.0, others[0].error)
            return 1.0, along(node, offset, y) if node.op == "nn.bias_add" else offset
        # Only a constant scale can be multiplied into the weights.
        scales = facts is not None and 1 - position in facts.factors
        if scales and node.inputs[1 - position] in self._constants:
            return np.abs(others[0].value), None
        if normalises(node, self._constants):
            scale, offset = normalisation(node, values, y)
            return np.abs(scale), np.abs(offset)
        return None

    def _added(self, y: Bounded, kept: np.ndarray, size: np.ndarray, before: Sum) -> Bounded:
        """Returns y with the error of adding one more term in the accumulator.

        The bound of the whole sum is gamma(n + 1) times the magnitudes of all n + 1 terms. The part
        gamma(n) of the n terms before is already in the bound of y. kept: the magnitudes of the n
        terms. size: those of all terms. Where the accumulator may overflow, y becomes ambiguous.
        """
        with computing(self._precision):
            sums: Arithmetic = accumulator(y.dtype, before.elements)
        if sums == arithmetic(y.dtype):
            return y
        extra = gamma(before.terms + 1, sums.u) * size - gamma(before.terms, sums.u) * kept + sums.lost
        unknown = np.isfinite(y.value) & ~(size * (1 + gamma(before.terms + 1, sums.u)) <= sums.largest)
        error = np.where(unknown, np.inf, y.error + np.where(np.isfinite(extra), extra, 0.0))
        return replace(y, error=error, ambiguous=y.ambiguous | unknown)

    def _sum(self, name: str, values: Mapping[str, Bounded]) -> Sum | None:
        """Returns the sum that an accumulator may hold for a value; None if there is none.

        The sum of a contraction is evaluated only here, when it is needed, because it costs twice
        as much as the contraction.
        """
        entry = self._sums.get(name)
        if isinstance(entry, Node):
            operands = [values[i] for i in entry.inputs]
            sizes = [np.abs(o.value) + np.where(o.ambiguous, 0.0, o.error) for o in operands]
            terms = contraction(entry, [np.ones(o.shape) for o in operands])
            entry = self._sums[name] = Sum(contraction(entry, sizes), terms, operands[0].dtype)
        return entry
