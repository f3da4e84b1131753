"""Structures with constants that change nothing, or nearly nothing.

Compilers drop or replace an operator with such a constant. A comparison with a tolerance, or a look
at the value alone, drops others too (classes 5, 10, 12, 16, 23, 31, 53).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from .expressions import Row, add_table, call, constant, node, row, two, x
from .vocabulary import BINARY

#: By operator, the constant that changes no value as its second operand; for maximum it makes a
#: relu.
_NEUTRAL = {
    "add": 0.0, "subtract": 0.0, "multiply": 1.0, "divide": 1.0, "power": 1.0, "maximum": 0.0, "minimum": 0.0,
}


def _neutral() -> Iterator[Row]:
    """Sums with zeros, products with ones and the like change nothing but the shape."""
    for (name, value), (shape, other) in product(
        _NEUTRAL.items(), (((3, 1), (1, 4)), ((4,), (3, 4)), ((3, 4), (1,)))
    ):
        operand = x(*shape, low=0.5, high=2.0) if name == "power" else x(*shape)
        yield row(node(name, operand, constant(*other, low=value, high=value)))


def _nearly_neutral() -> Iterator[Row]:
    """A comparison with a tolerance takes constants for neutral: 1 plus a little, which changes the
    last digits, and a tiny number, which is added to other tiny numbers."""
    for (name, value), shape in product(_NEUTRAL.items(), ((3, 5), ())):
        number, low, high = (1.0 + 4e-6, 0.5, 2.0) if value else (5e-9, -1e-7, 1e-7)
        yield row(node(name, x(3, 5, low=low, high=high), constant(*shape, low=number, high=number)))
    nearly_uniform = constant(2, 3, 5, data=[1.0 + 1e-6 * (i % 8) for i in range(30)])
    yield row(two(x(2, 3, 5, low=-0.5, high=0.5), nearly_uniform))
    # As before a logarithm or a division.
    yield row(node("maximum", x(2, 3, 4), constant(low=1e-12, high=1e-12)))


def _zeros() -> Iterator[Row]:
    """Products with zero and quotients of zero are zero only if the other operand is finite, and in
    quotients not zero."""
    special = x(7, data=["inf", "-inf", "nan", 0.0, -0.0, 1.5, -2.0])
    zeros, zero = constant(7, low=0.0, high=0.0), constant(low=0.0, high=0.0)
    yield row(node("multiply", special, zeros))
    yield row(node("multiply", special, zero))
    # If a target does not offload a scalar first operand, TVM itself makes the product zero.
    yield row(node("multiply", zeros, special))
    yield row(node("divide", zeros, special))


def _integer_factors() -> Iterator[Row]:
    """Products with integers could become shifts or negations, and so could divisions of negative
    numbers by such integers."""
    for name, factor in product(("multiply", "divide", "floor_divide"), (0, 1, -1, 2, -4, 3)):
        if factor or name == "multiply":
            operand = x(3, 5, low=-20, high=20, dtype="int32")
            yield row(node(name, operand, constant(low=None, high=None, data=[factor], dtype="int32")))


def _numbers() -> Iterator[Row]:
    """A number below zero is the first or the second operand: two minus signs in a row are another
    operator in C. A scalar gives the result the shape of the other operand."""
    for name, shape in product(BINARY, ((), (1,))):
        value = x(2, 3, 5, low=0.5, high=2.0) if name == "divide" else x(2, 3, 5)
        number = constant(*shape, low=-2.0, high=-1.0)
        yield row(node(name, value, number))
        yield row(node(name, number, value))
    yield row(two(constant(low=1.0, high=2.0), two(x(2, 3, 5), constant(high=1.5))))


def _pruned() -> Iterator[Row]:
    """Weights are zero as a whole, in some rows, or in some columns, and the bias must be added all the
    same."""
    places = list(product(range(5), range(4)))
    for kept in (lambda r, c: 0, lambda r, c: r % 3, lambda r, c: c % 3):
        data = [1.25 - 0.5 * r + c if kept(r, c) else 0.0 for r, c in places]
        dense = call("nn.dense", x(3, 4), constant(5, 4, data=data), units=5)
        yield row(node("add", dense, constant(5)), needs=["nn.dense"])
        given = {"channels": 5, "kernel_size": (1, 1)}
        conv = call("nn.conv2d", x(1, 4, 5, 5), constant(5, 4, 1, 1, data=data), **given)
        yield row(node("add", conv, constant(5, 1, 1)), needs=["nn.conv2d"])


def register() -> None:
    """Adds the structures of this file."""
    add_table("neutral_constants", _neutral())
    add_table("nearly_neutral_constants", _nearly_neutral())
    add_table("zeros_that_decide", _zeros())
    add_table("integer_factors", _integer_factors())
    add_table("numbers_as_operands", _numbers())
    add_table("pruned_weights", _pruned())
