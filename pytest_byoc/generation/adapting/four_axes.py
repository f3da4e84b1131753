"""Adapts graphs to four axes, for targets that offload no tensors of fewer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.graph import Graph, Node, Source, TensorType
from ...operators import OPERATORS
from ..structures.vocabulary import REDUCTIONS
from .parts import Unlike, again, by_parts, data_sources, is_elementwise, with_shape

_AXES = 4


def four_axes(graph: Graph, ir: str) -> Graph | None:
    """Returns the graph with four axes in each source that stands for data and has fewer. Axes of
    one element are added behind the first axis, or in front of an only axis. Parts with an operator
    that cannot be converted stay unchanged; None if all do."""
    return by_parts(graph, _converted)


def _converted(graph: Graph) -> Graph:
    data = data_sources(graph)

    def source(given: Source) -> Source:
        if given.name not in data or not 0 < given.type.rank < _AXES:
            return given
        shape = in_four(given.type.shape)
        return with_shape(given, shape, lambda elements: elements.reshape(shape))

    def attrs(node: Node, operands: Sequence[TensorType]) -> dict[str, Any]:
        before = [graph.type_of(name).shape for name in node.inputs]
        kept = all(now.shape in (old, old and in_four(old)) for old, now in zip(before, operands))
        if not kept and not (is_elementwise(node) and len(before) == 1):
            # After a reduction the axes are at other positions.
            raise Unlike
        return _attrs(node, len(before[0]), operands[0].rank - len(before[0]))

    return again(graph, source, attrs)


def in_four(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns a shape of one to four axes with axes of one element added up to four."""
    ones = (1,) * (_AXES - len(shape))
    return (*shape[:1], *ones, *shape[1:]) if len(shape) > 1 else ones + shape


def _attrs(node: Node, rank: int, more: int) -> dict[str, Any]:
    """Returns a node's attributes for a first operand that had `rank` axes and gets `more` further
    ones. Raises Unlike if the operator cannot be converted."""
    attrs = dict(node.attrs)

    def moved(axis: int) -> int:
        if axis < 0:
            return axis if axis > -rank else axis - more
        return axis if axis == 0 and rank > 1 else axis + more

    if not more or is_elementwise(node):
        return attrs
    if OPERATORS[node.op].follows_axis or node.op in REDUCTIONS:
        axis = attrs["axis"]
        several = isinstance(axis, tuple)
        attrs["axis"] = axis if axis is None else (tuple(map(moved, axis)) if several else moved(axis))
        if attrs.get("exclude"):
            raise Unlike
    elif node.op == "transpose":
        axes = attrs["axes"]
        if axes is None:
            raise Unlike
        front, *others = map(moved, axes)
        attrs["axes"] = (front, *range(1, 1 + more), *others) if rank > 1 else (*range(more), front)
    elif node.op == "reshape":
        if any(extent <= 0 and extent != -1 for extent in attrs["newshape"]):
            raise Unlike
        attrs["newshape"] = in_four(attrs["newshape"])
    elif node.op == "nn.pad":
        widths, at = attrs["pad_width"], min(rank - 1, 1)
        attrs["pad_width"] = (*widths[:at], *((0, 0),) * more, *widths[at:])
    elif node.op not in ("nn.matmul", "matmul"):
        raise Unlike
    return attrs
