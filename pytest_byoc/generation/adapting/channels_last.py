"""Adapts graphs to images whose channels are last, for targets that offload no others.

Structures and graphs of two operators in a row have images in NCHW, TVM's default layout.
A target that offloads convolutions in NHWC alone would offload none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.graph import Graph, Node, Source, TensorType
from ...operators import OPERATORS, within
from ..structures.vocabulary import REDUCTIONS
from .parts import Unlike, by_parts, has_layout, is_elementwise


def channels_last(graph: Graph, ir: str) -> Graph | None:
    """Returns the graph with its images in NHWC (NWC, NDHWC) and their weights in the first layout
    that goes with it. Values that are combined with images, and attributes that name axes, are
    changed to match.

    Parts that share no value are converted one by one. A part stays unchanged if it holds no image
    in NCHW (NCW, NCDHW), images of two ranks, or an operator on images that cannot be converted.
    None if all parts stay unchanged."""
    return by_parts(graph, lambda part: _Conversion(part, ir).converted())


def _layout(node: Node) -> str:
    """Returns the layout of the node's images if their channels are second, or else ""."""
    layout = node.attrs.get("data_layout", node.attrs.get("layout", ""))
    return layout if layout.startswith("NC") and node.op != "layout_transform" else ""


class _Conversion:
    def __init__(self, graph: Graph, ir: str) -> None:
        self._graph, self._ir = graph, ir
        layouts = {_layout(node) for node in graph.nodes if has_layout(node.op)}
        if len(layouts) != 1 or layouts == {""}:
            raise Unlike
        self._rank = len(layouts.pop())
        self._order = (0, *range(2, self._rank), 1)
        #: Names of the weights of convolutions.
        self._weights = {n.inputs[1] for n in graph.nodes if _layout(n) and "kernel_layout" in n.attrs}
        #: Names of values that are combined with images and have a lower rank.
        self._beside = self._values_beside_images()
        self._types: dict[str, TensorType] = {}

    def converted(self) -> Graph:
        sources = {s.name: self._source(s) for s in self._graph.sources() if s.name not in self._weights}
        self._types.update((name, s.type) for name, s in sources.items())
        nodes: list[Node] = []
        for node in self._graph.nodes:
            attrs = self._attrs(node)
            for name in node.inputs:
                if name in self._weights and name not in sources:
                    sources[name] = self._weight(name, node, attrs)
                    self._types[name] = sources[name].type
            types = OPERATORS[node.op].infer([self._types[i] for i in node.inputs], attrs)
            if any(t != self._type(name) for name, t in zip(node.outputs, types)):
                raise Unlike
            nodes.append(replace(node, attrs=attrs, types=types))
            self._types.update(zip(node.outputs, types))
        given = (self._graph.inputs, self._graph.constants)
        inputs, constants = (tuple(sources[s.name] for s in some) for some in given)
        return replace(self._graph, inputs=inputs, constants=constants, nodes=tuple(nodes))

    # --- values ------------------------------------------------------------------------------------

    def _is_image(self, name: str) -> bool:
        return self._graph.type_of(name).rank == self._rank and name not in self._weights

    def _values_beside_images(self) -> set[str]:
        beside: set[str] = set()
        known = -1
        while known != len(beside):
            known = len(beside)
            for node in filter(is_elementwise, self._graph.nodes):
                names = [*node.inputs, *node.outputs]
                if any(name in beside or self._is_image(name) for name in names):
                    lower = (name for name in names if not self._is_image(name))
                    beside.update(name for name in lower if self._graph.type_of(name).rank)
        return beside

    def _type(self, name: str) -> TensorType:
        type_ = self._graph.type_of(name)
        return replace(type_, shape=self._moved(name, type_.shape))

    def _moved(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape that a value of this shape has after conversion. A value that is
        combined with images is given their rank, and then loses its leading axes of one element."""
        if self._is_image(name):
            return tuple(shape[a] for a in self._order)
        if name not in self._beside:
            return shape
        if len(shape) > self._rank:
            raise Unlike
        whole = (1,) * (self._rank - len(shape)) + shape
        moved = tuple(whole[a] for a in self._order)
        ones = next((i for i, n in enumerate(moved) if n != 1), self._rank - 1)
        return moved[ones:]

    def _source(self, source: Source) -> Source:
        type_ = self._type(source.name)
        if source.data is None or type_ == source.type:
            return replace(source, type=type_)
        shape = source.type.shape
        whole = (1,) * (self._rank - len(shape)) + shape
        return _given(source, type_, whole, self._order)

    def _weight(self, name: str, node: Node, attrs: Mapping[str, Any]) -> Source:
        source = next((s for s in self._graph.sources() if s.name == name), None)
        users = [n for n in self._graph.nodes if name in n.inputs]
        if source is None or any(n.inputs[1:2] != (name,) for n in users):
            raise Unlike
        type_ = OPERATORS[node.op].operands(self._types[node.inputs[0]], attrs)[1].type
        if source.data is None:
            return replace(source, type=type_)
        order = [node.attrs["kernel_layout"].index(letter) for letter in attrs["kernel_layout"]]
        return _given(source, type_, source.type.shape, order)

    # --- nodes -------------------------------------------------------------------------------------

    def _attrs(self, node: Node) -> dict[str, Any]:
        """Returns a node's attributes after conversion. Raises Unlike if that is not possible."""
        attrs = dict(node.attrs)
        images = [self._is_image(name) for name in node.inputs]
        if _layout(node):
            key = "data_layout" if "data_layout" in attrs else "layout"
            attrs[key] = "N" + _layout(node)[2:] + "C"
            if "kernel_layout" in attrs:
                attrs["kernel_layout"] = self._kernel_layout(node, attrs)
        elif OPERATORS[node.op].follows_axis and images[0]:
            attrs["axis"] = self._axis(attrs["axis"])
        elif node.op == "nn.pad" and images[0]:
            attrs["pad_width"] = tuple(attrs["pad_width"][a] for a in self._order)
        elif node.op in REDUCTIONS and images[0]:
            if not attrs["keepdims"] or attrs["exclude"] or attrs["axis"] is None:
                raise Unlike
            attrs["axis"] = type(attrs["axis"])(self._axis(a) for a in attrs["axis"])
        elif not is_elementwise(node) and (any(images) or any(map(self._is_image, node.outputs))):
            raise Unlike
        if not is_elementwise(node) and self._beside.intersection(node.inputs):
            raise Unlike
        if not _layout(node) and any(name in self._weights for name in node.inputs):
            raise Unlike
        return attrs

    def _axis(self, axis: int) -> int:
        if axis < 0:
            return self._order.index(axis + self._rank) - self._rank
        return self._order.index(axis)

    def _kernel_layout(self, node: Node, attrs: Mapping[str, Any]) -> str:
        parameter = next(p for p in within(node.op, self._ir).parameters if p.name == "kernel_layout")
        classes = parameter.values(self._types[node.inputs[0]], attrs)
        return str(next(values[0] for values in classes.values() if values))


def _given(source: Source, type_: TensorType, shape: Sequence[int], order: Sequence[int]) -> Source:
    """Returns the source with its given elements, of that shape, in another order of axes. Raises
    Unlike if the new type has another number of elements."""
    array = np.array(source.data, dtype=object).reshape(shape).transpose(order)
    if array.size != type_.size:
        raise Unlike
    return replace(source, type=type_, data=array.reshape(type_.shape).tolist())
