"""A suite for Relay in the style of TVM's own BYOC tests, with one hand-written case for each
operator.

Inputs are random and from a normal range. Results of the graph executor are compared with TVM's
LLVM build with rtol and atol of 1e-2. `CASES` are functions without arguments that return a
module's body and its parameters' shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relay

TOLERANCE = 1e-2

_IMAGE = (1, 8, 14, 14)
_random = np.random.RandomState(0)


def _var(name: str, shape: tuple[int, ...]) -> Any:
    return relay.var(name, shape=shape, dtype="float32")


def _const(*shape: int) -> Any:
    return relay.const(_random.uniform(-1, 1, shape).astype("float32"))


def _unary(function: Callable[..., Any], shape: tuple[int, ...] = _IMAGE, **attrs: Any) -> Callable[[], Any]:
    return lambda: function(_var("x", shape), **attrs)


def _binary(function: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: function(_var("x", _IMAGE), _var("y", _IMAGE))


def _conv2d() -> Any:
    return relay.nn.conv2d(
        _var("x", _IMAGE), _const(16, 8, 3, 3), strides=(2, 2), padding=(1, 1), channels=16,
        kernel_size=(3, 3),
    )


def _conv2d_depthwise() -> Any:
    return relay.nn.conv2d(
        _var("x", _IMAGE), _const(8, 1, 3, 3), groups=8, padding=(1, 1), channels=8, kernel_size=(3, 3)
    )


def _conv2d_nhwc() -> Any:
    return relay.nn.conv2d(
        _var("x", (1, 14, 14, 8)), _const(3, 3, 8, 16), padding=(1, 1), channels=16, kernel_size=(3, 3),
        data_layout="NHWC", kernel_layout="HWIO",
    )


def _dense() -> Any:
    return relay.nn.dense(_var("x", (4, 16)), _const(32, 16), units=32)


def _quantize() -> Any:
    return relay.qnn.op.quantize(_var("x", _IMAGE), relay.const(0.05), relay.const(3), out_dtype="int8")


CASES: dict[str, Callable[[], Any]] = {
    "add": _binary(relay.add),
    "subtract": _binary(relay.subtract),
    "multiply": _binary(relay.multiply),
    "divide": lambda: relay.divide(_var("x", _IMAGE), relay.const(2.0)),
    "maximum": _binary(relay.maximum),
    "relu": _unary(relay.nn.relu),
    "leaky_relu": _unary(relay.nn.leaky_relu, alpha=0.1),
    "clip": _unary(relay.clip, a_min=-0.5, a_max=0.5),
    "sigmoid": _unary(relay.sigmoid),
    "tanh": _unary(relay.tanh),
    "exp": _unary(relay.exp),
    "sqrt": lambda: relay.sqrt(relay.abs(_var("x", _IMAGE))),
    "abs": _unary(relay.abs),
    "negative": _unary(relay.negative),
    "conv2d": _conv2d,
    "conv2d_depthwise": _conv2d_depthwise,
    "conv2d_nhwc": _conv2d_nhwc,
    "conv2d_bias_relu": lambda: relay.nn.relu(relay.nn.bias_add(_conv2d(), _const(16))),
    "conv2d_relu": lambda: relay.nn.relu(_conv2d()),
    "dense": _dense,
    "dense_bias": lambda: relay.nn.bias_add(_dense(), _const(32)),
    "dense_bias_relu": lambda: relay.nn.relu(relay.nn.bias_add(_dense(), _const(32))),
    "batch_matmul": lambda: relay.nn.batch_matmul(_var("x", (2, 8, 16)), _var("y", (2, 8, 16))),
    "bias_add": lambda: relay.nn.bias_add(_var("x", _IMAGE), _const(8)),
    "max_pool2d": _unary(relay.nn.max_pool2d, pool_size=(3, 3), strides=(2, 2), padding=(1, 1)),
    "avg_pool2d": _unary(relay.nn.avg_pool2d, pool_size=(3, 3), strides=(2, 2), padding=(1, 1)),
    "global_avg_pool2d": _unary(relay.nn.global_avg_pool2d),
    "softmax": _unary(relay.nn.softmax, shape=(1, 32)),
    "sum": _unary(relay.sum, axis=[1], keepdims=True),
    "mean": _unary(relay.mean, axis=[2, 3], keepdims=True),
    "max": _unary(relay.max, axis=[1]),
    "reshape": _unary(relay.reshape, newshape=(1, -1)),
    "squeeze": _unary(relay.squeeze, shape=(1, 8, 1, 1)),
    "transpose": _unary(relay.transpose, axes=[0, 2, 3, 1]),
    "concatenate": lambda: relay.concatenate([_var("x", _IMAGE), _var("y", _IMAGE)], axis=1),
    "split": lambda: relay.split(_var("x", _IMAGE), 2, axis=1).astuple(),
    "strided_slice": _unary(relay.strided_slice, begin=[0, 1, 2, 3], end=[1, 5, 10, 14]),
    "quantize": _quantize,
    "layer_norm": lambda: relay.nn.layer_norm(_var("x", (2, 5, 16)), _const(16), _const(16)),
}
