"""Adapts graphs to two axes, for targets that offload rows of features alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...core.graph import Graph, Node, Source, TensorType
from ...operators import OPERATORS
from .parts import Unlike, again, by_parts, data_sources, is_elementwise, with_shape

#: Names of attributes that hold an axis, or several.
_AXES = ("axis", "axes")


def two_axes(graph: Graph, ir: str) -> Graph | None:
    """Returns the graph with two axes in each source that stands for data and has more. All axes but
    the last become one; where matrices of data are multiplied, the axes before the last two are left
    out. Parts with an operator that cannot be converted stay unchanged; None if all do."""
    return by_parts(graph, _converted)


def in_two(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns a shape of at least two axes with all axes but the last made one."""
    return (prod(shape[:-1]), shape[-1])


def _converted(graph: Graph) -> Graph:
    data = data_sources(graph)
    multiplied = any(OPERATORS[n.op].matrices and data.issuperset(n.inputs[:2]) for n in graph.nodes)

    def source(given: Source) -> Source:
        shape = given.type.shape
        if given.name not in data or len(shape) <= 2:
            return given
        if multiplied:
            return with_shape(given, shape[-2:], lambda elements: _first_matrix(elements, shape))
        return with_shape(given, in_two(shape), lambda elements: elements.reshape(in_two(shape)))

    def attrs(node: Node, operands: Sequence[TensorType]) -> dict[str, Any]:
        rank = len(graph.type_of(node.inputs[0]).shape)
        return _attrs(node, rank) if operands[0].rank < rank else dict(node.attrs)

    return again(graph, source, attrs)


def _first_matrix(elements: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    matrix: np.ndarray = elements.reshape(-1, *shape[-2:])[0]
    return matrix


def _attrs(node: Node, rank: int) -> dict[str, Any]:
    """Returns a node's attributes for a first operand that had `rank` axes. Raises Unlike if the
    operator cannot be converted."""
    attrs = dict(node.attrs)
    named = next((name for name in _AXES if name in attrs), None)

    def moved(axis: int) -> int:
        if axis < 0:
            return -1 if axis == -1 else -2
        return 1 if axis == rank - 1 else 0

    if is_elementwise(node) or OPERATORS[node.op].matrices:
        return attrs
    if node.op == "transpose":
        if attrs["axes"] is not None:
            if moved(attrs["axes"][-1]) % 2:
                raise Unlike
            attrs["axes"] = (1, 0)
    elif node.op == "reshape":
        attrs["newshape"] = in_two(attrs["newshape"]) if len(attrs["newshape"]) > 2 else attrs["newshape"]
    elif node.op == "nn.pad":
        attrs["pad_width"] = (attrs["pad_width"][0], attrs["pad_width"][-1])
    elif named is not None and not attrs.get("exclude"):
        axes = attrs[named]
        if isinstance(axes, tuple):
            attrs[named] = tuple(dict.fromkeys(moved(axis) for axis in axes))
        elif axes is not None:
            attrs[named] = moved(axes)
    else:
        raise Unlike
    return attrs
