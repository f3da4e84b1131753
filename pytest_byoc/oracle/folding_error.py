"""Widens bounds for compilers that fold constants into each other and into weights.

TVM turns (x + c1) + c2 into x + (c1 + c2) (SimplifyExpr) and scales a convolution's weights instead
of its result (FoldScaleAxis); codegens do the same with biases and batch normalisation. These
rewrites are correct, but their results may be outside of the bounds of the separate operators: the
sum of the constants, or the scaled weight, is rounded too, and may be much larger than the result.
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

#: The number of roundings in the calculation of gamma / sqrt(variance + epsilon).
_SCALE = 4.0


class Folding:
    """Tracks through a graph the size of the terms that may have been folded into each value.

    The size of a value is the sum of the magnitudes of its terms: the constants added to it, or the
    products of a contraction. A value into which nothing can be folded has no size.
    """

    def __init__(self, graph: Graph) -> None:
        self._constants = {s.name for s in graph.constants}
        self._sizes: dict[str, np.ndarray | Node] = {}

    def widen(self, node: Node, values: Mapping[str, Bounded], y: Bounded) -> Bounded:
        """Returns the node's first result y with the error added that folding may cause."""
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
        """Returns the size of the result's terms, and the error of folding in units roundoff.

        Each is None where there is none. The size of a contraction is its node, from which `_size`
        calculates it.
        """
        facts = facts_of(node)
        if facts is None:
            return None, None
        if facts.contraction:
            # The size is evaluated when it is needed: that costs as much as the contraction itself.
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
        size = self._sizes.get(name)
        if isinstance(size, Node):
            size = self._sizes[name] = contraction(size, [np.abs(values[i].value) for i in size.inputs])
        return size


def facts_of(node: Node) -> Operator | None:
    """Returns the record of a node's operator; None for a node that stands for a whole model."""
    return OPERATORS.get(node.op)


def contraction(node: Node, operands: list[np.ndarray]) -> np.ndarray:
    """Returns the value of a contraction with other operands, in float64."""
    attrs = {**node.attrs, **({"out_dtype": "float64"} if "out_dtype" in node.attrs else {})}
    result = KERNELS[node.op]([exact(o, "float64") for o in operands], attrs)
    assert isinstance(result, Bounded)
    return result.value


def along(node: Node, vector: np.ndarray, y: Bounded) -> np.ndarray:
    """Returns a vector reshaped so that it broadcasts along the node's axis of y."""
    axis = node.attrs["axis"] % len(y.shape)
    return vector.reshape((-1,) + (1,) * (len(y.shape) - 1 - axis))


def _addend(node: Node, value: np.ndarray, y: Bounded) -> np.ndarray:
    return along(node, value, y) if node.op == "nn.bias_add" else value


def normalises(node: Node, constants: set[str]) -> bool:
    """Returns whether a node is a batch normalisation whose parameters are all constants.

    Such a node is a multiplication by one constant and an addition of another.
    """
    inference = node.op == "nn.batch_norm" and not node.attrs.get("training")
    return inference and constants.issuperset(node.inputs[1:])


def normalisation(
    node: Node, values: Mapping[str, Bounded], y: Bounded
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the scale of a batch normalisation, and the magnitude of what it adds.

    The latter is |mean * scale| + |beta|.
    """
    gamma, beta, mean, variance = (along(node, values[i].value, y) for i in node.inputs[1:5])
    scale = 1.0 / np.sqrt(variance + node.attrs["epsilon"])
    if node.attrs.get("scale", True):
        scale = scale * gamma
    shift = np.abs(mean * scale) + (np.abs(beta) if node.attrs.get("center", True) else 0.0)
    return scale, shift
