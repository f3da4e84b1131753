"""Structures of a product or a pooling, followed by one or two operators that a target may fuse.

A target may fuse what it likes, not only patterns that TVM knows. Each structure holds one chain
for each last operator; each chain has its own anchor, so that none reads the value of another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from ...core.graph import Graph, TensorType
from ..builder import Builder
from .vocabulary import Structure, Vocabulary, add, biased, need

_IMAGE = TensorType((2, 3, 4, 3), "float32")
_MATRIX, _ROW = TensorType((3, 8), "float32"), TensorType((1, 8), "float32")
#: A step behind the anchor: (builder, the value before, the axis of its channels) -> the value.
_Step = Callable[[Builder, str, int], str]


@dataclass(frozen=True)
class _Anchor:
    """The operator at the beginning of a chain. operator: its name. make: adds it and returns its
    value. channels: the axis of its channels. pairs: True if there are chains with two steps behind
    it."""

    operator: str
    make: Callable[[Builder], str]
    channels: int
    pairs: bool = False


def _convolution(b: Builder, kernel_size: tuple[int, int]) -> str:
    return b.simple("nn.conv2d", b.input(_IMAGE), kernel_size=kernel_size, channels=5)


_ANCHORS = {
    "dense": _Anchor("nn.dense", lambda b: b.simple("nn.dense", b.input(_MATRIX), units=5), 1, True),
    "column": _Anchor("nn.dense", lambda b: b.simple("nn.dense", b.input(_MATRIX), units=1), 1),
    "row": _Anchor("nn.dense", lambda b: b.simple("nn.dense", b.input(_ROW), units=5), 1),
    "dense_float64": _Anchor(
        "nn.dense", lambda b: b.simple("nn.dense", b.input(TensorType((3, 8), "float64")), units=5), 1
    ),
    "conv": _Anchor("nn.conv2d", lambda b: _convolution(b, (1, 1)), 1, True),
    "window": _Anchor("nn.conv2d", lambda b: _convolution(b, (2, 3)), 1),
    "batch_matmul": _Anchor(
        "nn.batch_matmul", lambda b: b.simple("nn.batch_matmul", b.input(TensorType((2, 3, 4), "float32"))), 2
    ),
    "max_pool": _Anchor("nn.max_pool2d", lambda b: b.simple("nn.max_pool2d", b.input(_IMAGE)), 1),
    "avg_pool": _Anchor("nn.avg_pool2d", lambda b: b.simple("nn.avg_pool2d", b.input(_IMAGE)), 1),
}


def _by_channel(b: Builder, y: str, axis: int, constant: bool = True) -> str:
    """Adds an operand with one element for each channel."""
    shape = b.types[y].shape
    return _operand(b, y, (shape[axis],) + (1,) * (len(shape) - axis - 1), constant)


def _negative(b: Builder, y: str) -> str:
    """Adds a negative constant, with which no maximum, minimum or root commutes."""
    return b.constant(TensorType((), b.types[y].dtype), -2.0, -0.5)


def _operand(b: Builder, y: str, shape: tuple[int, ...] = (), constant: bool = True) -> str:
    type_ = TensorType(shape, b.types[y].dtype)
    return b.constant(type_, 0.5, 2.0) if constant else b.input(type_, 0.5, 2.0)


def _two(b: Builder, operator: str, left: str, right: str) -> str:
    return b.node(operator, (left, right), {})[0]


#: Steps by name: the operator, and the function that adds the step.
_STEPS: dict[str, tuple[str, _Step]] = {
    "bias": ("add", lambda b, y, axis: _two(b, "add", y, _by_channel(b, y, axis))),
    "bias_input": ("add", lambda b, y, axis: _two(b, "add", y, _by_channel(b, y, axis, False))),
    "bias_add": ("nn.bias_add", lambda b, y, axis: b.simple("nn.bias_add", y, axis=axis)),
    "residual": ("add", lambda b, y, axis: _two(b, "add", y, b.input(b.types[y]))),
    "residual_first": ("add", lambda b, y, axis: _two(b, "add", b.input(b.types[y]), y)),
    "shift": ("add", lambda b, y, axis: _two(b, "add", y, _operand(b, y, constant=False))),
    "scale": ("multiply", lambda b, y, axis: _two(b, "multiply", y, _operand(b, y))),
    "channel_scale": ("multiply", lambda b, y, axis: _two(b, "multiply", y, _by_channel(b, y, axis))),
    "negative_scale": ("multiply", lambda b, y, axis: _two(b, "multiply", y, _negative(b, y))),
    "channel_offset": ("subtract", lambda b, y, axis: _two(b, "subtract", y, _by_channel(b, y, axis))),
    "channel_quotient": ("divide", lambda b, y, axis: _two(b, "divide", y, _by_channel(b, y, axis))),
    "complement": ("subtract", lambda b, y, axis: _two(b, "subtract", _operand(b, y), y)),
    "relu": ("nn.relu", lambda b, y, axis: b.simple("nn.relu", y)),
    "clip": ("clip", lambda b, y, axis: b.simple("clip", y, a_min=-0.75, a_max=1.25)),
    "leaky_relu": ("nn.leaky_relu", lambda b, y, axis: b.simple("nn.leaky_relu", y, alpha=0.25)),
    "tanh": ("tanh", lambda b, y, axis: b.simple("tanh", y)),
    "sigmoid": ("sigmoid", lambda b, y, axis: b.simple("sigmoid", y)),
}
#: Steps without pairs. To a compiler, subtraction and division are like addition and multiplication
#: once it has distinguished them, and a bias that is an input is like a constant one.
_ALONE = ("bias_input", "negative_scale", "channel_offset", "channel_quotient")
_PAIRED = tuple(name for name in _STEPS if name not in _ALONE)
#: Steps whose result is no sum or product, and the steps that are tested behind them.
_ACTIVATIONS = ("relu", "clip", "leaky_relu", "tanh", "sigmoid")
_BEHIND_ACTIVATIONS = ("bias", "residual", "scale", "negative_scale", "relu", "clip")

#: Names of the structures that level smoke has time for.
_FEW = {"dense_returned_too", "conv_returned_too", "dense_relu_each", "conv_relu_each", "dense_float64_each"}


def _offloaded_steps(v: Vocabulary, names: Collection[str] = tuple(_STEPS)) -> list[_Step]:
    """Returns the steps whose operators the target offloads. Raises Unavailable if there are
    none."""
    v.of(sorted({_STEPS[name][0] for name in names}))
    return [_STEPS[name][1] for name in names if _STEPS[name][0] in v.offloaded]


def _pairs(anchor: _Anchor, name: str, b: Builder, v: Vocabulary) -> Graph:
    """The chain has the anchor, the step with that name, and each of the other steps (classes 10,
    35)."""
    operator, step = _STEPS[name]
    need(v, anchor.operator, operator)
    axis, behind = anchor.channels, _BEHIND_ACTIVATIONS if name in _ACTIVATIONS else _PAIRED
    return b.graph(*(last(b, step(b, anchor.make(b), axis), axis) for last in _offloaded_steps(v, behind)))


def _activated(anchor: _Anchor, name: str, b: Builder, v: Vocabulary) -> Graph:
    """The chain has the anchor, a bias, the activation with that name, and each activation (class
    10)."""
    operator, step = _STEPS[name]
    need(v, anchor.operator, operator)
    axis = anchor.channels
    return b.graph(*(
        last(b, step(b, biased(b, v, anchor.make(b)), axis), axis)
        for last in _offloaded_steps(v, _ACTIVATIONS)
    ))


def _each(anchor: _Anchor, returned: bool, b: Builder, v: Vocabulary) -> Graph:
    """The chain has the anchor and each of the steps. returned: the anchor's value is an output too
    (class 48)."""
    need(v, anchor.operator)
    outputs = []
    for last in _offloaded_steps(v):
        y = anchor.make(b)
        outputs.append(last(b, y, anchor.channels))
        if returned:
            outputs.append(y)
    return b.graph(*outputs)


def register() -> None:
    """Adds the structures of this file, those of level smoke first."""
    made: dict[str, Structure] = {}
    for name, anchor in _ANCHORS.items():
        made[f"{name}_each"] = partial(_each, anchor, False)
        made[f"{name}_returned_too"] = partial(_each, anchor, True)
        if anchor.pairs:
            made.update({f"{name}_{step}_each": partial(_pairs, anchor, step) for step in _PAIRED})
            made.update({
                f"{name}_biased_{step}_each": partial(_activated, anchor, step) for step in _ACTIVATIONS
            })
    for name in sorted(made, key=lambda name: name not in _FEW):
        add(name, made[name], at_smoke=name in _FEW)
