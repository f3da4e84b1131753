"""Structures that look like several operators that compilers replace by one.

Each row breaks a condition of such a fusion: the order of parts, an axis, a permutation, a constant
that two layers share, a layout (classes 2, 9, 10, 16, 26, 33, 34, 43, 55).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from .expressions import Field, Row, Value, add_table, call, constant, first, node, row, second, two, x
from .vocabulary import REDUCTIONS

_Shape = tuple[int, ...]


def _joined() -> Iterator[Row]:
    """Values are cut from a concatenation, or joined again in another order."""
    for axis in (0, 1):
        joined = node("concatenate", *(x(*((n, 3) if axis == 0 else (3, n))) for n in (1, 2, 3)), axis=axis)
        for begin, end in ((0, 1), (1, 3), (3, 6), (3, 5), (2, 4)):
            yield row(call("strided_slice", joined, axes=(axis,), strides=(1,), begin=(begin,), end=(end,)))
        for at in ((1, 3), (2, 3)):
            parts = node("split", joined, indices_or_sections=at, axis=axis)
            yield row(*(Field(parts, n) for n in range(3)))
    halves = node("split", x(2, 6), indices_or_sections=2, axis=1)
    yield row(node("concatenate", Field(halves, 1), Field(halves, 0), axis=1))
    thirds = node("split", first(x(2, 9)), indices_or_sections=3, axis=1)
    yield row(second(Field(thirds, 1)))
    yield row(*(Field(thirds, n) for n in (2, 1, 0)))
    # A tuple is passed on whole.
    whole = node("split", x(2, 9), indices_or_sections=3, axis=1)
    yield row(node("concatenate", *(Field(whole, n) for n in range(3)), axis=1))
    yield row(*(Field(thirds, n) for n in (0, 1, 0)))
    yield row(node("concatenate", first(Field(thirds, 2)), Field(thirds, 0), axis=1))
    a, b = x(2, 3), x(2, 3, low=0.5, high=2.0)
    for places in ((a, a, b), (a, b, a), (b, a, a), (a, a, a)):
        yield row(node("concatenate", *places, axis=1))
    # All are computed before the first is read, and they are read in another order.
    one, other, third, last = (node("concatenate", x(2, 3), x(2, 3), axis=0) for _ in range(4))
    yield row(node("concatenate", third, one, last, other, axis=1))
    # The batch of one is not the only axis before theirs.
    yield row(node("concatenate", x(1, 3, 4), x(1, 3, 4), axis=2))
    rows = node("split", x(1, 3, 4), indices_or_sections=2, axis=2)
    yield row(*(Field(rows, n) for n in (0, 1)))
    uneven = node("split", x(12, 13), indices_or_sections=(2, 9), axis=0)
    yield row(*(first(Field(uneven, n)) for n in range(3)))
    value = first(x(1, 3, low=0.5, high=2.0))
    # If tuples do not belong to regions, a path leads out of the region and back into it.
    yield row(two(node("concatenate", value, value, axis=0), value))


def _slices() -> Iterator[Row]:
    """Slices go backwards from behind the last element, as exporters write them, or end at the last
    element, behind which no memory may be read."""
    for begin, end, strides in (((7, 9), (-8, -9), (-1, -2)), ((5, 2**31 - 1), (1, 2), (-2, -1))):
        yield row(node("strided_slice", x(5, 6), axes=(0, 1), begin=begin, end=end, strides=strides))
    yield row(call("strided_slice", x(4, 16), axes=(1,), strides=(2,), begin=(1,), end=(16,)))


def _reduced_against_itself() -> Iterator[Row]:
    """Operations look like a normalisation along an axis, beside true ones. Without keepdims, rows are
    combined with the values of columns, which a square does not show."""
    for reduction, operator in product(REDUCTIONS[:3], ("divide", "subtract")):
        value = x(4, 4, low=0.5, high=2.0)
        for axis, kept in ((0, True), (1, True), (1, False)):
            reduced = call(reduction, value, axis=(axis,), keepdims=kept)
            yield row(node(operator, value, reduced))
    # Adding a value along a softmax's own axis does not change it, along another one it does.
    for name, axis, shape in product(("nn.softmax", "nn.log_softmax"), (0, 1), ((), (2, 1), (1, 3), (2, 3))):
        other = constant(*shape) if name == "nn.softmax" else x(*shape, low=0.5, high=2.0)
        yield row(call(name, node("add", x(2, 3), other), axis=axis))


def _summed_products() -> Iterator[Row]:
    """Elementwise products are summed: dot products, as a whole or along an axis, and products of a
    column and a row, which have equally many elements. Or two products are added."""
    square, column = ((4, 4), (4, 4)), ((3, 1), (1, 3))
    for shapes, axis in ((square, (0, 1)), (square, (0,)), (square, (1,)), (column, (0, 1))):
        yield row(call("sum", node("multiply", *(x(*shape) for shape in shapes)), axis=axis))
    layers: tuple[tuple[str, _Shape, dict[str, Any]], ...] = (
        ("nn.dense", (8,), {"units": 5}), ("nn.conv2d", (3, 3, 2), {"channels": 4, "kernel_size": (1, 1)}),
    )
    for name, shape, given in layers:
        for rows in ((3, 3), (1, 3), (3, 1)):
            yield row(node("add", *(call(name, x(n, *shape), **given) for n in rows)))


def _permuted_operands() -> Iterator[Row]:
    """An operand of a product is permuted otherwise than by a transposition of its matrices, or square,
    so that its shape does not show a transposition; or both operands are one value."""
    for axes in ((0, 2, 1), (1, 2, 0), (2, 1, 0), (1, 0, 2)):
        moved = call("transpose", x(4, 4, 4), axes=axes)
        yield row(call("nn.batch_matmul", x(4, 3, 4), moved, transpose_b=False))
        yield row(node("matmul", x(4, 3, 4), call("transpose", constant(4, 4, 4, low=-1.0), axes=axes)))
    for heads in ((1, 0, 3, 2), (1, 0, 2, 3), (0, 2, 1, 3), (0, 2, 3, 1)):
        yield row(node("matmul", x(4, 4, 2, 4), call("transpose", x(4, 4, 4, 4), axes=heads)))
    for leaf, square in product((x, constant), ((1, 0), (0, 1))):
        moved = call("transpose", leaf(4, 4, low=-1.0, high=1.0), axes=square)
        yield row(node("matmul", x(3, 4), moved))
        yield row(call("nn.dense", x(3, 4), moved, units=4))
    moved = call("transpose", x(2, 4, 4), axes=(0, 2, 1))
    yield row(call("nn.batch_matmul", moved, moved, transpose_b=False))
    for leaf in (x, constant):
        weight, value = leaf(2, 4, 4, low=-1.0, high=1.0), x(2, 4, 4)
        made = call("nn.batch_matmul", value, weight, transpose_b=True)
        yield row(call("nn.batch_matmul", made, weight, transpose_b=False))
    # Matrices with two batch dimensions, and with the inner one alone.
    yield row(node("matmul", x(2, 3, 4, 5), x(3, 5, 6)))


def _scaled_layers() -> Iterator[Row]:
    """Two layers read the same weight and bias, and the result of one is multiplied by a constant. A
    compiler that moves the constant into them changes both."""
    layers: tuple[tuple[str, _Shape, _Shape, _Shape, dict[str, Any]], ...] = (
        ("nn.dense", (3, 8), (5, 8), (5,), {"units": 5}),
        ("nn.conv2d", (1, 3, 4, 5), (4, 3, 2, 2), (4, 1, 1), {"channels": 4, "kernel_size": (2, 2)}),
    )
    for name, shape, weights, bias, given in layers:
        for factor, biased in product(((), bias), (False, True)):
            weight, offset = constant(*weights, low=-1.0, high=1.0), constant(*bias)
            made: list[Value] = [call(name, x(*shape), weight, **given) for _ in range(2)]
            made = [node("add", value, offset) for value in made] if biased else made
            yield row(two(node("multiply", made[0], constant(*factor, low=2.0, high=3.0)), made[1]))


#: Operators behind channels last, whose axes are others then.
_BEHIND: tuple[tuple[str, dict[str, Any]], ...] = (
    ("reshape", {"newshape": (2, -1)}), ("transpose", {"axes": (0, 3, 1, 2)}), ("mean", {"axis": (1, 2)}),
    ("nn.softmax", {"axis": -1}), ("expand_dims", {"axis": 1, "num_newaxis": 1}),
)


def _layouts() -> Iterator[Row]:
    """Operators read a window's result with channels last, a value that has the shape of its second
    operand, or an image that a convolution reads too and whose layout it would change."""
    for name, (reader, given) in product(("nn.conv2d", "nn.max_pool2d", "nn.avg_pool2d"), _BEHIND):
        key = "data_layout" if name == "nn.conv2d" else "layout"
        yield row(call(reader, call(name, x(2, 3, 4, 2), **{key: "NHWC"}), **given))
    for reader, given in _BEHIND:
        yield row(call(reader, two(x(), x(2, 3, 4, 2, low=0.5, high=2.0)), **given))
    for layout, shape, channel in (("NCHW", (1, 4, 5, 3), (4, 1, 1)), ("NHWC", (1, 5, 3, 4), (4,))):
        value = first(x(*shape))
        scaled = node("multiply", value, constant(*channel))
        pointwise: dict[str, Any] = {"channels": 4, "kernel_size": (1, 1), "data_layout": layout}
        yield row(node("add", call("nn.conv2d", value, **pointwise), scaled))
        yield row(node("add", scaled, call("nn.conv2d", scaled, **pointwise)))
        pooled = call("nn.max_pool2d", value, pool_size=(2, 2), layout=layout)
        yield row(call("mean", pooled, axis=(1, 2)), scaled)


def register() -> None:
    """Adds the structures of this file."""
    add_table("joined_and_cut", _joined(), in_full=True)
    add_table("slices_to_the_end", _slices())
    add_table("reduced_against_itself", _reduced_against_itself())
    add_table("summed_products", _summed_products())
    add_table("permuted_operands", _permuted_operands())
    add_table("scaled_layers", _scaled_layers())
    add_table("layouts", _layouts())
