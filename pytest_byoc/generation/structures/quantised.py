"""Structures of quantised layers, in the form in which exporters write them: each operator reads the
results of qnn.dequantize, and qnn.quantize reads its result (classes 5, 6, 16, 31, 35, 43).

The scales and zero points of one row differ, unless equal ones are what it is about.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from .expressions import Row, Value, add_table, call, constant, first, node, row, x
from .vocabulary import UNARY

#: Scales and zero points: of operands, and of results.
_FIRST, _SECOND, _WEIGHT, _RESULT = (0.0371, -5), (0.0613, 11), (0.0199, 3), (0.0523, 7)
#: A window whose padding keeps the extents of the data.
_PADDED = {"kernel_size": (3, 3), "padding": (1, 1, 1, 1)}
#: A layer: its operator, the shapes of data, weight and bias, the axis of the weight's channels, and its
#: parameters.
_Layer = tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...], int, dict[str, Any]]
_LAYERS: tuple[_Layer, ...] = (
    ("nn.dense", (3, 8), (5, 8), (5,), 0, {"units": 5}),
    ("matmul", (3, 8), (8, 5), (5,), 1, {}),
    ("nn.conv2d", (1, 3, 5, 6), (4, 3, 2, 2), (4, 1, 1), 0, {"channels": 4, "kernel_size": (2, 2)}),
    # A padded zero is the zero point in integers. The second of these layers is depthwise.
    ("nn.conv2d", (1, 3, 4, 5), (4, 3, 3, 3), (4, 1, 1), 0, {"channels": 4, **_PADDED}),
    ("nn.conv2d", (1, 4, 4, 5), (4, 1, 3, 3), (4, 1, 1), 0, {"channels": 4, "groups": 4, **_PADDED}),
)


def _leaf(*shape: int, dtype: str = "int8", fixed: bool = False) -> Value:
    low, high = (0.0, 127.0) if dtype == "uint8" else (-100.0, 100.0)
    return (constant if fixed else x)(*shape, dtype=dtype, low=low, high=high)


def _real(value: Value, scale: Any, zero_point: Any = 0, axis: int = -1) -> Value:
    return call("qnn.dequantize", value, axis=axis, scale=scale, zero_point=zero_point)


def _quantised(value: Value, scale: float, zero_point: int, dtype: str = "int8") -> Value:
    return call("qnn.quantize", value, out_dtype=dtype, scale=scale, zero_point=zero_point)


def _product(name: str, data: Value, weight: Value, given: dict[str, Any]) -> Value:
    return call(name, data, weight, **given) if given else node(name, data, weight)


def _around_operators() -> Iterator[Row]:
    """Operators of one or two operands, of which some change nothing but the order of elements. The
    parameters of the results are others, or the same as the operand's."""
    for name in UNARY:
        yield row(_quantised(call(name, _real(_leaf(2, 3, 5), *_FIRST)), *_RESULT))
    for name in ("add", "multiply", "subtract", "maximum"):
        operands = _real(_leaf(2, 3, 5), *_FIRST), _real(_leaf(2, 3, 5), *_SECOND)
        yield row(_quantised(node(name, *operands), *_RESULT))
    once = _real(_leaf(2, 3, 5), *_FIRST)
    yield row(_quantised(node("add", once, once), *_RESULT))
    moving: tuple[tuple[str, tuple[int, ...], dict[str, Any]], ...] = (
        ("reshape", (2, 3, 4), {"newshape": (6, 4)}), ("transpose", (2, 3, 4), {"axes": (0, 2, 1)}),
        ("nn.max_pool2d", (1, 3, 5, 6), {"pool_size": (2, 2)}),
        ("nn.avg_pool2d", (1, 3, 5, 6), {"pool_size": (2, 2), "padding": (1, 1, 1, 1)}),
        ("mean", (2, 3, 5), {"axis": (1,)}), ("nn.softmax", (2, 7), {"axis": -1}),
        ("nn.pad", (2, 3), {"pad_width": ((1, 0), (0, 2))}),
        ("strided_slice", (4, 5), {"axes": (1,), "strides": (2,), "begin": (0,), "end": (5,)}),
    )
    for (name, shape, given), result in product(moving, (_RESULT, _FIRST)):
        yield row(_quantised(call(name, _real(_leaf(*shape), *_FIRST), **given), *result))
    parts = _real(_leaf(2, 3), *_FIRST), _real(_leaf(2, 4), *_SECOND)
    yield row(_quantised(node("concatenate", *parts, axis=1), *_RESULT))


def _layers() -> Iterator[Row]:
    """Products of quantised data and constant weights, whose scales are one number or one for each
    channel, with a bias in floats or in int32, and an activation."""
    for name, shape, weights, bias, axis, given in _LAYERS:
        scales = tuple(0.01 * (2 + n % 5) for n in range(weights[axis]))
        for by_channel, biased, dtype in (
            (False, "", "int8"), (False, "float", "uint8"), (True, "", "int8"), (True, "float", "int8"),
            (True, "int", "int8"),
        ):
            data = _real(_leaf(*shape, dtype=dtype), *_FIRST)
            weight = _leaf(*weights, fixed=True)
            real = _real(weight, scales, axis=axis) if by_channel else _real(weight, *_WEIGHT)
            made = _product(name, data, real, given)
            if biased == "float":
                made = call("nn.relu", node("add", made, constant(*bias, low=-1.0, high=1.0)))
            elif biased == "int":
                offset = constant(*bias, dtype="int32", low=-1000.0, high=1000.0)
                made = node("add", made, _real(offset, _FIRST[0] * _WEIGHT[0]))
            yield row(_quantised(made, *_RESULT, dtype=dtype))
        # The result stays in floats.
        real = _real(_leaf(*weights, fixed=True), *_WEIGHT)
        yield row(_product(name, _real(_leaf(*shape), *_FIRST), real, given))


def _pairs() -> Iterator[Row]:
    """Pairs of conversions that change nothing, and pairs that round, saturate or have another scale,
    zero point, dtype or axis."""
    for scale, zero_point in (_FIRST, (_FIRST[0], 11), _RESULT, (0.0071, -5)):
        yield row(_quantised(_real(_leaf(2, 3, 5), *_FIRST), scale, zero_point))
        yield row(_real(_quantised(first(x(2, 3, 5)), *_FIRST), scale, zero_point))
    yield row(_quantised(_real(_leaf(2, 3, 5), *_FIRST), 0.0371, 117, dtype="uint8"))
    square = tuple(0.01 * n for n in (2, 3, 5, 7))
    for axis in (0, 1):
        by_channel = _real(_leaf(4, 4), square, axis=axis)
        yield row(_quantised(by_channel, *_RESULT))
        # A permutation moves the axis of the scales.
        yield row(_quantised(call("transpose", by_channel, axes=(1, 0)), *_RESULT))
    # One value is read as an integer's and as a float's.
    value = _real(_leaf(2, 3, 5), *_FIRST)
    yield row(_quantised(call("nn.relu", value), *_RESULT), call("tanh", value))


def _blocks_of_weights() -> Iterator[Row]:
    """Weights of 8 bits with a scale, and an offset, for each block of a row or column, as language models
    have them."""
    for blocks, offset in product((1, 2, 4), (False, True)):
        for name, weights, scales, shape, given in (
            ("matmul", (blocks, 8 // blocks, 5), (blocks, 1, 5), (8, 5), {}),
            ("nn.dense", (5, blocks, 8 // blocks), (5, blocks, 1), (5, 8), {"units": 5}),
        ):
            weight: Value = call("cast", _leaf(*weights, fixed=True), dtype="float32")
            if offset:
                weight = node("subtract", weight, constant(*scales, low=-8.0, high=8.0))
            weight = node("multiply", weight, constant(*scales, low=0.01, high=0.1))
            yield row(_product(name, x(3, 8), call("reshape", weight, newshape=shape), given), needs=[name])


def _of_two_in_a_byte() -> Iterator[Row]:
    """Weights of 4 bits, two in a byte: the lower half and the upper one are neighbours, or halves of an
    axis. Numbers of 4 bits have no dtype that both IRs compute with."""
    for apart in (False, True):
        packed = _leaf(2, 2, 5, dtype="uint8", fixed=True)
        four, fifteen = (constant(dtype="uint8", data=number) for number in (4, 15))
        low, high = node("bitwise_and", packed, fifteen), node("right_shift", packed, four)
        shape, axis = ((4, 5), 0) if apart else ((2, 2, 1, 5), 2)
        parts = (call("reshape", part, newshape=shape) for part in (low, high))
        whole = call("cast", node("concatenate", *parts, axis=axis), dtype="float32")
        centred = node("subtract", call("reshape", whole, newshape=(2, 4, 5)), constant(low=8.0, high=8.0))
        weight = node("multiply", centred, constant(2, 1, 5, low=0.01, high=0.1))
        made = node("matmul", x(3, 8), call("reshape", weight, newshape=(8, 5)))
        yield row(made, needs=["matmul"])


def _of_several_dtypes() -> Iterator[Row]:
    """Products of narrow dtypes whose results are wider, values of float16 that are averaged in float32,
    masks, ids, and one value that is read in two dtypes."""
    for dtype, sums in (("float16", "float32"), ("int8", "int32")):
        narrow = (x if dtype == "float16" else _leaf)(3, 8, dtype=dtype)
        weight = constant(5, 8, dtype=dtype, low=-1.0) if dtype == "float16" else _leaf(5, 8, fixed=True)
        made: Value = call("nn.dense", narrow, weight, units=5, out_dtype=sums)
        made = made if sums == "float32" else call("cast", made, dtype="float32")
        scaled = node("multiply", made, constant(5, low=0.01, high=0.1))
        yield row(node("add", scaled, constant(5)), needs=["nn.dense"])
    value = x(2, 3, 8)
    half = call("cast", value, dtype="float16")
    for name in ("nn.relu", "tanh", "nn.softmax"):
        yield row(node("add", call("cast", call(name, half), dtype="float32"), value), needs=[name])
    wide = call("cast", x(2, 3, 8, dtype="float16"), dtype="float32")
    for name, axis in (("mean", (-1,)), ("nn.softmax", -1)):
        yield row(call("cast", call(name, wide, axis=axis), dtype="float16"), needs=[name])
    mask = node("greater", value, constant(low=0.0, high=0.0))
    yield row(node("multiply", value, call("cast", mask, dtype="float32")), needs=["multiply"])
    yield row(node("where", mask, value, constant(low=-1e4, high=-1e4)), needs=["where"])
    for dtype in ("int32", "int64"):
        rows = call("take", constant(7, 4), x(2, 3, dtype=dtype, low=0, high=6), axis=0)
        yield row(node("add", rows, constant(3, 4)), needs=["take"])


def register() -> None:
    """Adds the structures of this file."""
    add_table("quantised_operators", _around_operators(), in_patterns=True)
    add_table("quantised_layers", _layers(), in_patterns=True)
    add_table("quantised_pairs", _pairs(), in_patterns=True)
    add_table("weights_in_blocks", (*_blocks_of_weights(), *_of_two_in_a_byte()))
    add_table("several_dtypes", _of_several_dtypes())
