"""Structures with constants, for example equal, shared, uniform or first operands."""

from __future__ import annotations

from itertools import product
from typing import Any

from ...core.graph import Graph, TensorType
from ..builder import Builder
from .vocabulary import BINARY, Vocabulary, need, numeric_structure, structure

_T = TensorType((2, 3, 5), "float32")
_MATRIX = TensorType((3, 8), "float32")
_ROW = TensorType((5,), "float32")


@structure
def constant_first(b: Builder, v: Vocabulary) -> Graph:
    """The first operand of an operator that does not commute is a constant (classes 5, 33)."""
    x = b.simple(v.unary[0], b.input(_T, 0.5, 2.0))
    return b.graph(b.node(v.binary, (b.constant(_T), x), {})[0])


@structure
def constants_of_one_shape(b: Builder, v: Vocabulary) -> Graph:
    """Two constants in one region have the same shape and different values (class 26)."""
    x = b.input(_T)
    y = b.node(v.binary, (x, b.constant(_T, 0.5, 2.0)), {})[0]
    return b.graph(b.node(v.binary, (y, b.constant(_T, 0.5, 2.0)), {})[0])


@structure
def uniform_constants(b: Builder, v: Vocabulary) -> Graph:
    """Each constant holds one value throughout, so that it may be stored as one element or not at
    all (class 26)."""
    ones, twos = (b.constant(_T, data=[value] * _T.size) for value in (1.0, 2.0))
    y = b.node(v.binary, (b.input(_T), ones), {})[0]
    return b.graph(b.node(v.binary, (y, twos), {})[0])


@numeric_structure
def uniform_operands(b: Builder, v: Vocabulary) -> Graph:
    """Weights, biases and concatenated constants, each in a shape of its own, hold one value
    throughout (classes 5, 26)."""
    v.of(("nn.conv2d", "nn.dense", "nn.bias_add", "concatenate"))
    outputs = []

    def uniform(*shape: int) -> str:
        return b.constant(TensorType(shape, "float32"), 0.75, 0.75)

    if "nn.conv2d" in v.offloaded:
        image = b.input(TensorType((1, 3, 5, 4), "float32"))
        y = b.simple("nn.conv2d", image, uniform(4, 3, 3, 2), channels=4, kernel_size=(3, 2))
        outputs += [y, b.node("add", (b.simple("nn.conv2d", image, channels=4), uniform(4, 1, 1)), {})[0]]
    if "nn.dense" in v.offloaded:
        matrix = b.input(_MATRIX)
        outputs += [b.simple("nn.dense", matrix, uniform(5, 8), units=5)]
        outputs += b.node("add", (b.simple("nn.dense", matrix, units=5), uniform(5)), {})
    if "nn.bias_add" in v.offloaded:
        outputs += [b.simple("nn.bias_add", b.input(_MATRIX), uniform(8), axis=1)]
    if "concatenate" in v.offloaded:
        outputs += b.node("concatenate", (b.input(_MATRIX), uniform(3, 5)), {"axis": 1})
    return b.graph(*outputs)


@structure
def equal_constants(b: Builder, v: Vocabulary) -> Graph:
    """Two constants have the same bytes and different shapes, so they must be kept apart (class
    26)."""
    types = [TensorType(shape, "float32") for shape in ((4, 4), (4,), (4, 1))]
    row, column = (b.constant(t, data=[0.5, 1.25, -0.75, 2.0]) for t in types[1:])
    y = b.node(v.binary, (b.input(types[0]), row), {})[0]
    return b.graph(b.node(v.binary, (y, column), {})[0])


@structure
def mirrored_constants(b: Builder, v: Vocabulary) -> Graph:
    """Two constants hold the same numbers in another order, so that their sums are equal (class
    26)."""
    data = [0.25 * i - 1.0 if i % 3 else 0.5 for i in range(_T.size)]
    there, back = (b.constant(_T, data=numbers) for numbers in (data, data[::-1]))
    y = b.node(v.binary, (b.input(_T), there), {})[0]
    return b.graph(b.node(v.binary, (y, back), {})[0])


@numeric_structure
def constants_that_begin_alike(b: Builder, v: Vocabulary) -> Graph:
    """Constants differ only in the last, the first or one middle element, and are so large that
    NumPy prints no more than their corners (class 26)."""
    type_ = TensorType((31, 41), "float32")
    data = [0.25 * (i % 11) + 0.5 for i in range(type_.size)]
    y = b.input(type_)
    for numbers in (data, [*data[:-1], 7.0], [-3.0, *data[1:]], [*data[:635], 9.0, *data[636:]]):
        y = b.node(v.binary, (y, b.constant(type_, data=numbers)), {})[0]
    return b.graph(y)


@numeric_structure
def nearly_equal_constants(b: Builder, v: Vocabulary) -> Graph:
    """Constants differ by a few millionths of their values, or by less than 1e-8, so that a
    comparison with a tolerance mistakes them for equal (class 26)."""
    outputs = []
    for size, step in ((1.0, 2e-6), (0.0, 1e-9)):
        y = b.input(_T, -0.5 * (size or step), 0.5 * (size or step))
        for k in (1, 2):
            constant = b.constant(_T, data=[size + k * step * (1 + i % 3) for i in range(_T.size)])
            y = b.node(v.binary, (y, constant), {})[0]
        outputs.append(y)
    return b.graph(*outputs)


@numeric_structure
def nearly_uniform_constant(b: Builder, v: Vocabulary) -> Graph:
    """The values of a constant are so near to each other that a comparison with a tolerance
    mistakes them for one value (classes 26, 53)."""
    data = [1.0 + 1e-6 * (i % 8) for i in range(_T.size)]
    return b.graph(b.node(v.binary, (b.input(_T, -0.5, 0.5), b.constant(_T, data=data)), {})[0])


@structure
def special_constant(b: Builder, v: Vocabulary) -> Graph:
    """A constant holds values that a text or a table may be unable to represent (classes 51,
    53)."""
    largest, least = 3.4028234663852886e38, 1.401298464324817e-45
    values = ["inf", "-inf", "nan", -0.0, 0.0, largest, -largest, least, -least]
    # These numbers need nine digits.
    values += [1.0031402553067892e-07, 1.177663762064185e-07, -1.0005203421314945e-07]
    data = [*values, *(0.1 * i - 1.0 for i in range(_T.size - len(values)))]
    outputs = b.node(v.binary, (b.input(_T), b.constant(_T, data=data)), {})
    if "concatenate" in v.offloaded:
        outputs += b.node("concatenate", (b.input(_T), b.constant(_T, data=data)), {"axis": 1})
    if "maximum" in v.offloaded:
        outputs += b.node("maximum", (b.input(_T, -2.0, -1.0), b.constant(_T, data=data)), {})
    return b.graph(*outputs)


@structure
def scalar_constant(b: Builder, v: Vocabulary) -> Graph:
    """A constant of rank 0 is the first or the second operand (class 23)."""
    scalar = TensorType((), "float32")
    y = b.node(v.binary, (b.input(_T), b.constant(scalar, 0.5, 1.5)), {})[0]
    return b.graph(b.node(v.binary, (b.constant(scalar, 1.0, 2.0), y), {})[0])


@numeric_structure
def negative_numbers(b: Builder, v: Vocabulary) -> Graph:
    """A constant of one element below zero is the first or the second operand (classes 5, 12). Two
    minus signs in a row are another operator in C."""
    outputs: list[str] = []
    for name in v.of(BINARY):
        x = b.input(_T, *((0.5, 2.0) if name == "divide" else ()))
        for shape in ((), (1,)):
            number = b.constant(TensorType(shape, "float32"), -2.0, -1.0)
            outputs += b.node(name, (x, number), {}) + b.node(name, (number, x), {})
    return b.graph(*outputs)


@numeric_structure
def permuted_constants(b: Builder, v: Vocabulary) -> Graph:
    """Transposes of constants may be computed when code is generated (classes 5, 10). With reversed
    axes NumPy keeps the data in place and calls them contiguous in the other order."""
    need(v, "transpose")
    outputs: list[str] = []
    for axes in ((0, 2, 1), (1, 2, 0), (2, 1, 0)):
        y = b.simple("transpose", b.constant(TensorType((2, 3, 4), "float32"), 0.5, 2.0), axes=axes)
        outputs += b.node(v.binary, (b.input(b.types[y]), y), {})
    y = b.simple("transpose", b.constant(TensorType((3, 4), "float32"), 0.5, 2.0), axes=(1, 0))
    outputs += b.node(v.binary, (b.input(b.types[y]), y), {})
    return b.graph(*outputs)


@structure
def constant_only(b: Builder, v: Vocabulary) -> Graph:
    """One region reads constants alone, and another one does not (classes 5, 30)."""
    y = b.simple(v.unary[0], b.constant(_T))
    return b.graph(b.node(v.binary, (b.simple(v.unary[1], b.input(_T)), y), {})[0])


@structure
def constant_result(b: Builder, v: Vocabulary) -> Graph:
    """One region has no input at all, and another one has inputs (class 30)."""
    constant = b.node(v.binary, (b.constant(_T), b.constant(_T, 0.5, 1.5)), {})[0]
    return b.graph(constant, b.simple(v.unary[0], b.input(_T)))


@structure
def shared_constant(b: Builder, v: Vocabulary) -> Graph:
    """Two regions read the same constant (class 26)."""
    c = b.constant(_T, 0.5, 2.0)
    y = b.node(v.binary, (b.input(_T), c), {})[0]
    return b.graph(b.node(v.binary, (b.simple(v.host, y), c), {})[0])


@structure
def equal_regions(b: Builder, v: Vocabulary) -> Graph:
    """Two regions differ in the values of their constant only (classes 7, 26)."""
    y = b.node(v.binary, (b.input(_T), b.constant(_T, 0.5, 2.0)), {})[0]
    return b.graph(b.node(v.binary, (b.simple(v.host, y), b.constant(_T, 0.5, 2.0)), {})[0])


@structure
def identical_regions(b: Builder, v: Vocabulary) -> Graph:
    """Two regions are exactly alike (class 7)."""
    y = b.simple(v.unary[0], b.input(_T))
    return b.graph(b.simple(v.unary[0], b.simple(v.host, y)))


@structure
def equal_dense(b: Builder, v: Vocabulary) -> Graph:
    """Two layers of the same shape have different weights (class 26)."""
    need(v, "nn.dense")
    y = b.simple("nn.dense", b.input(_MATRIX), units=8)
    return b.graph(b.simple("nn.dense", b.simple(v.host, y), units=8))


@structure
def shared_weight(b: Builder, v: Vocabulary) -> Graph:
    """Two layers read the same weight (class 26)."""
    need(v, "nn.dense")
    w = b.constant(TensorType((8, 8), "float32"), -1.0, 1.0)
    y = b.simple("nn.dense", b.input(_MATRIX), w, units=8)
    return b.graph(b.simple("nn.dense", b.simple(v.host, y), w, units=8))


@numeric_structure
def shared_weight_scaled(b: Builder, v: Vocabulary) -> Graph:
    """Two layers of one region read the same weight and bias, and the result of one of them is
    multiplied by a constant (class 26). A compiler that moves the constant into them changes both
    layers."""
    v.of(("nn.dense", "nn.conv2d"))
    need(v, "multiply")
    outputs: list[str] = []

    def layers(name: str, x: TensorType, w: TensorType, bias: TensorType, **chosen: Any) -> None:
        factors = (TensorType((), "float32"), bias)
        for factor, biased in product(factors, (False, True) if "add" in v.offloaded else (False,)):
            weight, offset = b.constant(w, -1.0, 1.0), b.constant(bias, 0.5, 2.0)
            made = []
            for _ in range(2):
                y = b.simple(name, b.input(x), weight, **chosen)
                made.append(b.node("add", (y, offset), {})[0] if biased else y)
            made[0] = b.node("multiply", (made[0], b.constant(factor, 2.0, 3.0)), {})[0]
            outputs.extend(b.node(v.binary, made, {}))

    if "nn.dense" in v.offloaded:
        layers("nn.dense", _MATRIX, TensorType((5, 8), "float32"), _ROW, units=5)
    if "nn.conv2d" in v.offloaded:
        kernel, bias = TensorType((4, 3, 2, 2), "float32"), TensorType((4, 1, 1), "float32")
        layers("nn.conv2d", TensorType((1, 3, 4, 5), "float32"), kernel, bias, channels=4, kernel_size=(2, 2))
    return b.graph(*outputs)


@structure
def shared_weight_inside(b: Builder, v: Vocabulary) -> Graph:
    """Two layers of one region read the same weight (class 26)."""
    need(v, "nn.dense")
    w = b.constant(TensorType((8, 8), "float32"), -1.0, 1.0)
    y = b.simple("nn.dense", b.input(_MATRIX), w, units=8)
    return b.graph(b.simple("nn.dense", b.simple(v.unary[0], y), w, units=8))
