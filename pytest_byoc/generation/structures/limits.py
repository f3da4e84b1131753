"""Structures with just as many inputs, results, steps or elements as a table, a digit, a byte or a
stack has room for, and with one more (classes 1, 4, 7, 18, 25, 26)."""

from __future__ import annotations

from .expressions import Field, Row, Value, add_table, call, constant, first, host, node, row, second, two, x

_SHAPE, _ROW = (2, 3, 5), (5,)


def _chain(steps: int) -> Row:
    """A chain of that many operators, every other one with a constant."""
    value: Value = x(*_SHAPE)
    operand = constant(*_SHAPE)
    for number in range(steps):
        unary = first if number % 4 == 1 else second
        value = unary(value) if number % 2 else two(value, operand)
    return row(value)


def _inputs(number: int) -> Row:
    """One region reads that many inputs, each with an operator of its own."""
    value: Value = x(*_SHAPE)
    for _ in range(number - 1):
        value = two(value, x(*_SHAPE, low=0.5, high=1.5))
    return row(value)


def _constants(number: int) -> Row:
    """One region reads that many constants."""
    value: Value = x(*_ROW)
    for _ in range(number):
        # Without an operator between, TVM 0.16 gives up simplifying so many sums.
        value = two(first(value), constant(*_ROW, high=1.5))
    return row(value)


def _regions(number: int) -> Row:
    """A graph has that many regions, each with a constant."""
    return row(*(first(host(two(x(*_ROW), constant(*_ROW, high=1.5)))) for _ in range(number)))


def _joined(number: int) -> Row:
    """A concatenation has that many operands."""
    return row(node("concatenate", *(x(*_SHAPE) for _ in range(number)), axis=0))


def _fields(number: int) -> Row:
    """A split has that many results."""
    made = node("split", x(2, number), indices_or_sections=number, axis=1)
    return row(*(Field(made, at) for at in range(number)))


def _elements(*shape: int) -> Row:
    """A value has so many elements, along its axes and in all."""
    value = x(*shape)
    return row(two(first(value), value))


def _moved(rows: int, columns: int) -> tuple[Row, ...]:
    """Tensors with so many elements are joined, split, cut and permuted."""
    value = x(rows, columns)
    cut = {"axes": (0,), "strides": (2,), "begin": (rows // 2,), "end": (rows,)}
    return (
        row(node("concatenate", value, x(rows, 3), axis=1)),
        row(Field(node("split", value, indices_or_sections=2, axis=0), 1)),
        row(call("strided_slice", value, **cut)),
        row(call("transpose", value, axes=(1, 0))),
    )


def _named(length: int) -> Row:
    """Names of two inputs are that long and differ in the last letter."""
    one, other = (x(*_SHAPE, low=0.5, high=2.0, name="n" * (length - 1) + last) for last in "ab")
    return row(two(one, other))


def _paths(doublings: int) -> tuple[Row, ...]:
    """Each value is read twice to make the next one, so that the number of paths doubles each time. The
    operators between are ones that TVM inlines nowhere: it would follow the paths itself."""
    made = []
    for operator in ("nn.softmax", "nn.dense"):
        value: Value = x(3, 5)
        for _ in range(doublings):
            if operator == "nn.softmax":
                other = call(operator, value)
            else:
                other = call(operator, value, constant(5, 5, low=-0.15, high=0.15), units=5)
            value = two(other, value)
        made.append(row(value))
    return tuple(made)


def register() -> None:
    """Adds the structures of this file."""
    add_table("long_chain", [_chain(8)], in_full=True)
    add_table("chains", [_chain(20)], in_full=True)
    # Python allows 1,000 calls in each other, and visiting an operator may take two.
    add_table("hundreds_in_a_row", [_chain(520)])
    add_table("inputs", [_inputs(number) for number in (11, 17)], in_full=True)
    add_table("constants", [_constants(number) for number in (12,)], in_full=True)
    add_table("regions", [_regions(12)])
    add_table("joined_and_split", [*map(_joined, (9, 11, 66)), *map(_fields, (9, 11, 66))])
    sizes = ((127,), (128,), (129,), (2, 64), (255,), (256,), (257,), (16, 16), (2, 256), (1023,), (1025,))
    add_table("elements", [_elements(*shape) for shape in sizes])
    add_table("elements_of_16_bits", [_elements(65535), _elements(65537), *_moved(306, 227)])
    add_table("long_names", [_named(length) for length in (32, 64, 128, 256)])
    add_table("paths", _paths(26))
    # The bound of so long a sum is larger than its value, so graphs that compute the same judge it.
    add_table("long_sums", [row(call("sum", two(x(1 << 18), x(1 << 18))))], in_full=True)
    # An intermediate value has 9 MB, which is more than a stack holds.
    wide = two(x(1531, 1), x(1, 1489, low=0.5, high=2.0))
    add_table("large_between", [second(first(wide))])
