"""Structures of layers as models have them: products and windows with a bias, an activation, a residual.

They have a batch of one or a few rows, the usual layouts, and one parameter at a time that differs
from its default, so that they show the faults of a target that refuses most other graphs. A layer
and what follows it form the patterns that most targets have (classes 9, 10, 14, 16, 26, 36, 40, 41,
48).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .expressions import Call, Row, Value, add_table, call, constant, first, host, node, row, x

_IMAGE = (1, 4, 7, 6)
#: Parameters off their defaults, for one layer each.
_CONVOLUTIONS: tuple[dict[str, Any], ...] = (
    {"kernel_size": (3, 3), "strides": (1, 2)},
    {"kernel_size": (3, 3), "strides": (2, 1), "padding": (1, 1, 1, 1)},
    {"kernel_size": (3, 3), "padding": (1, 0, 2, 3)},
    {"kernel_size": (1, 1), "padding": (1, 2, 1, 2)},
    {"kernel_size": (3, 2), "dilation": (1, 2)},
    {"kernel_size": (3, 3), "groups": 2},
    {"kernel_size": (3, 3), "groups": 4, "padding": (1, 1, 1, 1)},
    {"kernel_size": (3, 3), "groups": 4, "channels": 8},
    {"kernel_size": (2, 1), "strides": (5, 5)},
    # The window is as large as the image, and with its padding reaches outside it.
    {"kernel_size": (7, 6), "strides": (7, 6), "padding": (1, 2, 1, 0)},
    # The image is cut into pieces, as in vision transformers.
    {"kernel_size": (3, 3), "strides": (3, 3), "channels": 8},
)
_POOLINGS: tuple[dict[str, Any], ...] = (
    {"pool_size": (2, 3), "strides": (1, 2)},
    {"pool_size": (3, 3), "padding": (1, 0, 2, 1)},
    {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1)},
    {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1), "ceil_mode": True},
    {"pool_size": (2, 2), "strides": (2, 2), "ceil_mode": True},
    {"pool_size": (7, 6), "strides": (7, 6), "padding": (1, 2, 1, 0)},
)


def _poolings() -> Iterator[Row]:
    """Padding counts in the mean or not. All elements are below zero, so that the zeros of a padding are
    the largest."""
    for chosen in _POOLINGS:
        image = x(*_IMAGE, low=-2.0, high=-0.5)
        yield row(call("nn.max_pool2d", image, **chosen))
        for counted in (False, True) if "padding" in chosen else (False,):
            yield row(call("nn.avg_pool2d", image, **chosen, count_include_pad=counted))


def _products() -> Iterator[Row]:
    """Products have one row, one column or several of both, transposed or not."""
    attrs: dict[str, Any] = {"transpose_a": False, "out_dtype": "float32"}
    for rows, columns in ((1, 5), (3, 1), (3, 5)):
        left = x(2, rows, 4)
        for transposed in (False, True):
            right = x(2, columns, 4) if transposed else x(2, 4, columns)
            yield row(node("nn.batch_matmul", left, right, **attrs, transpose_b=transposed))
        yield row(node("matmul", left, constant(4, columns, low=-2.0)))


@dataclass(frozen=True)
class _Layer:
    """A layer that keeps its operand's shape. make: the layer of a value. bias: the shape of the bias.
    axis: the axis of the channels."""

    operator: str
    shape: tuple[int, ...]
    make: Callable[[Value], Call]
    bias: tuple[int, ...]
    axis: int


def _conv(layout: str, **more: Any) -> Callable[[Value], Call]:
    given = {"channels": 4, "kernel_size": (3, 3), "padding": (1, 1, 1, 1), "data_layout": layout, **more}
    return lambda value: call("nn.conv2d", value, **given)


_LAYERS = (
    _Layer("nn.conv2d", (2, 4, 6, 5), _conv("NCHW"), (4, 1, 1), 1),
    _Layer("nn.conv2d", (2, 6, 5, 4), _conv("NHWC"), (4,), 3),
    _Layer("nn.conv2d", (2, 4, 6, 5), _conv("NCHW", groups=2), (1, 4, 1, 1), 1),
    _Layer("nn.conv2d", (2, 4, 6, 5), _conv("NCHW", groups=4), (4, 1, 1), 1),
    _Layer("nn.dense", (3, 8), lambda value: call("nn.dense", value, units=8), (8,), 1),
)


def _patterns(layers: tuple[_Layer, ...]) -> Iterator[Row]:
    """The layer has a bias on either side, or none, and an activation behind; what lies between is
    returned, or read by an operator left to TVM; the operand is added, or the result to itself; two
    such layers follow each other."""
    for layer in layers:
        value, bias, needs = x(*layer.shape), constant(*layer.bias, low=-1.0), [layer.operator]

        def relu(operand: Value) -> Call:
            return call("nn.relu", operand)

        made = layer.make(value)
        biased = node("add", made, bias)
        yield row(relu(biased), needs=needs)
        yield row(relu(node("add", bias, layer.make(value))), needs=needs)
        yield row(relu(node("add", x(*layer.bias), layer.make(value))), needs=needs)
        yield row(relu(call("nn.bias_add", layer.make(value), axis=layer.axis)), needs=needs)
        yield row(relu(layer.make(value)), needs=needs)
        yield row(relu(biased), made, biased, needs=needs)
        yield row(relu(biased), host(biased), needs=needs)
        yield row(relu(node("add", layer.make(value), value)), needs=needs)
        doubled = layer.make(value)
        yield row(relu(node("add", doubled, doubled)), needs=needs)
        again = node("add", layer.make(relu(biased)), constant(*layer.bias, low=-1.0))
        yield row(relu(again), needs=needs)
        yield row(node("add", layer.make(biased), constant(*layer.bias)), needs=needs)
        block = relu(node("add", layer.make(relu(layer.make(value))), value))
        yield row(block, needs=needs)


def _deep() -> Iterator[Row]:
    """Sums have more terms than a tile, once a multiple of its size and once not, and there are more
    channels than a block has. Fused operators must be applied once, behind the last tile."""
    for depth, channels in ((32, 5), (67, 5), (70, 35)):
        dense = call("nn.dense", x(3, depth), units=channels)
        conv = call("nn.conv2d", x(1, depth, 4, 3), channels=channels, kernel_size=(1, 1))
        for operator, made, bias in (("nn.dense", dense, (channels,)), ("nn.conv2d", conv, (channels, 1, 1))):
            yield row(first(node("add", made, constant(*bias, low=-1.0))), needs=[operator])
            yield row(call("nn.relu", node("add", made, constant(*bias))), needs=[operator])


def register() -> None:
    """Adds the structures of this file."""
    convolutions = (call("nn.conv2d", x(*_IMAGE), **{"channels": 4, **c}) for c in _CONVOLUTIONS)
    add_table("plain_convolutions", convolutions, in_full=True)
    add_table("plain_poolings", _poolings(), in_full=True)
    add_table("plain_products", _products())
    add_table("convolution_patterns", _patterns(_LAYERS[:2]), in_full=True)
    add_table("grouped_patterns", _patterns(_LAYERS[2:4]), at_smoke=False)
    add_table("product_patterns", _patterns(_LAYERS[4:]), in_full=True)
    add_table("deep_layers", _deep())
