"""Makes scales that go together, as in every quantised model: a product of two tensors is
requantised or dequantised by the product of their scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.graph import Node
from ..operators import OPERATORS
from .builder import Builder

#: Positions of the scales of a product's first and second operand among its operands.
_SCALES = (4, 5)


def natural(builder: Builder, op: str, lead: str) -> Mapping[str, Any]:
    """Returns the operator's parameters that follow from the product behind its first operand:
    scale, zero point and, for several scales, the axis. Empty if there is no such product."""
    parameters = OPERATORS[op].scale_parameters
    product = _product(builder, lead) if parameters else None
    if parameters is None or product is None:
        return {}
    first, second = (product.inputs[at] for at in _SCALES)
    of_first, of_second = _elements(builder, first), _elements(builder, second)
    if len(of_first) != 1 or not of_second:
        return {}
    each = tuple(of_first[0] * s for s in of_second)
    scale, zero_point = parameters
    several = builder.types[second].rank > 0
    values: dict[str, Any] = {scale: each if several else each[0], zero_point: 0}
    if several:
        rank = builder.types[lead].rank
        axis = product.attrs.get("data_layout", "C" * rank).rindex("C")
        values["axis"] = -1 if axis == rank - 1 else axis
    return values


def _product(builder: Builder, value: str) -> Node | None:
    """Returns the product from which a value is computed, if there is one."""
    nodes = {output: node for node in builder.nodes for output in node.outputs}
    while value in nodes and OPERATORS[nodes[value].op].epilogue:
        value = nodes[value].inputs[0]
    producer = nodes.get(value)
    return producer if producer is not None and OPERATORS[producer.op].quantized_product else None


def _elements(builder: Builder, name: str) -> Sequence[float]:
    """Returns the elements given for a constant of at most one axis; empty if none are given."""
    data = next((c.data for c in builder.constants if c.name == name), None)
    return data if isinstance(data, (list, tuple)) else () if data is None else (data,)
