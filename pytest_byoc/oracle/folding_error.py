"""What compilers may do with constants, as error: they fold them into each other and into weights.

TVM makes x + (c1 + c2) of (x + c1) + c2 (SimplifyExpr) and scales a convolution's weights instead of its
result (FoldScaleAxis); codegens do the same with biases and batch normalisation. Each is correct, and
none is inside the bound of the operators one by one: the sum of the constants, or the scaled weight, is
rounded too, and what is rounded may be much larger than the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..core.graph import Graph, Node
from ..operators import OPERATORS
from ..operators.record import Operator
from ..reference_kernels import KERNELS, Bounded, exact
from ..reference_kernels.bounded import UNIT_ROUNDOFF

#: Roundings of gamma / sqrt(variance + epsilon).
_SCALE = 4.0


class Folding:
    """Follows, through a graph, the size of what may have been folded into each value.

    The size is the sum of the magnitudes of the terms: of the constants added to a value, of the
    products of a contraction. None where nothing can be folded."""

    def __init__(self, graph: Graph) -> None:
        self._constants = {s.name for s in graph.constants}
        self._sizes: dict[str, np.ndarray | Node] = {}

    def widen(self, node: Node, values: Mapping[str, Bounded], y: Bounded) -> Bounded:
        """The node's first result, with the error that folding its constants may add."""
        if not y.is_float:
            return y
        size, extra = self._follow(node, values, y)
        if size is not None:
            self._sizes[node.outputs[0]] = size
        if extra is None:
            return y
        extra = np.where(np.isfinite(extra) & np.isfinite(y.value), extra, 0.0)
        return replace(y, error=y.error + UNIT_ROUNDOFF[y.dtype] * extra)

    def _follow(
        self, node: Node, values: Mapping[str, Bounded], y: Bounded
    ) -> tuple[np.ndarray | Node | None, np.ndarray | None]:
        """The size of the result's terms, and the error in units roundoff."""
        facts = facts_of(node)
        if facts is None:
            return None, None
        if facts.contraction:
            # Evaluated when it is needed: that costs as much as the contraction itself.
            return node, None
        if facts.homogeneous:
            return self._sizes.get(node.inputs[0]), None
        constant = [i for i in (*facts.addends, *facts.factors) if node.inputs[i] in self._constants]
        if facts.addends and len(constant) == 1:
            before = self._size(node.inputs[1 - constant[0]], values)
            added = np.abs(_addend(node, values[node.inputs[constant[0]]].value, y))
            total = np.broadcast_to(added if before is None else before + added, y.shape)
            return total, None if before is None else total
        if facts.factors and len(constant) == 1:
            before = self._size(node.inputs[1 - constant[0]], values)
            if before is not None:
                scaled = before * np.abs(values[node.inputs[constant[0]]].value)
                return np.broadcast_to(scaled, y.shape), scaled
        if normalises(node, self._constants):
            before = self._size(node.inputs[0], values)
            if before is not None:
                scale, shift = normalisation(node, values, y)
                total = before * np.abs(scale) + np.abs(shift)
                return total, _SCALE * total
        return None, None

    def _size(self, name: str, values: Mapping[str, Bounded]) -> np.ndarray | None:
        found = self._sizes.get(name)
        if isinstance(found, Node):
            found = self._sizes[name] = contraction(found, [np.abs(values[i].value) for i in found.inputs])
        return found


def facts_of(node: Node) -> Operator | None:
    """The record of a node's operator; None for a node that stands for a whole model."""
    return OPERATORS.get(node.op)


def contraction(node: Node, operands: list[np.ndarray]) -> np.ndarray:
    """The value of a contraction of float64 operands."""
    attrs = {**node.attrs, **({"out_dtype": "float64"} if "out_dtype" in node.attrs else {})}
    made = KERNELS[node.op]([exact(o, "float64") for o in operands], attrs)
    assert isinstance(made, Bounded)
    return made.value


def along(node: Node, vector: np.ndarray, y: Bounded) -> np.ndarray:
    axis = node.attrs["axis"] % len(y.shape)
    return vector.reshape((-1,) + (1,) * (len(y.shape) - 1 - axis))


def _addend(node: Node, value: np.ndarray, y: Bounded) -> np.ndarray:
    return along(node, value, y) if node.op == "nn.bias_add" else value


def normalises(node: Node, constants: set[str]) -> bool:
    """Whether it is a batch normalisation by constant statistics, and so one scale and one offset."""
    inference = node.op == "nn.batch_norm" and not node.attrs.get("training")
    return inference and constants.issuperset(node.inputs[1:])


def normalisation(
    node: Node, values: Mapping[str, Bounded], y: Bounded
) -> tuple[np.ndarray, np.ndarray]:
    """What batch normalisation multiplies by, and what it adds: to the mean, the offset."""
    gamma, beta, mean, variance = (along(node, values[i].value, y) for i in node.inputs[1:5])
    scale = 1.0 / np.sqrt(variance + node.attrs["epsilon"])
    if node.attrs.get("scale", True):
        scale = scale * gamma
    shift = np.abs(mean * scale) + (np.abs(beta) if node.attrs.get("center", True) else 0.0)
    return scale, shift
