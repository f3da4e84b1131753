"""Structures that no generator covers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...core.graph import Graph, TensorType
from ...operators import OPERATORS
from ...operators.record import Attrs
from ..boundary import large_shape
from ..builder import Builder
from .expressions import Field, Row, Value, add_table, call, constant, first, host, node, row, second, two, x
from .vocabulary import BINARY, UNARY, Unavailable, Vocabulary, structure

_SHAPE, _ROW, _EVEN = (2, 3, 5), (5,), (4, 3)
_T = TensorType(_SHAPE, "float32")


@structure
def each_once(b: Builder, v: Vocabulary) -> Graph:
    """The graph holds every operator and pattern that the target offloads, each by itself (classes
    18, 28). A few checks of one graph show whether one of them leaves something behind, or reads or
    writes outside its memory."""
    parts = v.parts()
    if not parts:
        raise Unavailable("the target offloads no operator in its simplest form, and no pattern")
    return b.graph(*(value for part in parts for value in b.splice(part, lambda type_: None)))


@structure
def large(b: Builder, v: Vocabulary) -> Graph:
    """Some 70,000 elements need buffers that do not fit where small ones do (class 18)."""
    type_ = TensorType((3, 157, 149), "float32")
    y = b.simple(v.unary[0], b.input(type_))
    if not v.offloaded.intersection(BINARY):
        return b.graph(b.simple(v.unary[1], y))
    return b.graph(b.node(v.binary, (y, b.input(type_, 0.5, 2.0)), {})[0])


@structure
def large_weight(b: Builder, v: Vocabulary) -> Graph:
    """A weight of 80 KiB makes up most of the artifact (class 50)."""
    if "nn.dense" in v.offloaded:
        y = b.simple("nn.dense", b.input(TensorType((3, 128), "float32")), units=160)
        return b.graph(b.simple(v.unary[0], y) if v.offloaded.intersection(UNARY) else y)
    type_ = TensorType((160, 128), "float32")
    y, *_ = b.node(v.binary, (b.input(type_), b.constant(type_, 0.5, 2.0)), {})
    return b.graph(b.simple(v.unary[0], y))


_IMAGE = (1, 8, 16, 16)
#: Operators that gather their operands, in forms for which a kernel may have its own code, with the
#: shapes of their inputs.
_FORMS: tuple[tuple[str, Attrs, tuple[tuple[int, ...], ...]], ...] = (
    ("nn.conv2d", {"groups": 2, "channels": 8, "kernel_size": (3, 3), "padding": (1, 1, 1, 1)}, (_IMAGE,)),
    ("nn.conv2d", {"groups": 8, "channels": 8, "kernel_size": (3, 3), "padding": (1, 1, 1, 1)}, (_IMAGE,)),
    ("nn.conv2d", {"channels": 8, "kernel_size": (3, 3)}, (_IMAGE, (8, 8, 3, 3))),
    ("nn.dense", {"units": 96}, ((16, 128), (96, 128))),
    ("nn.batch_matmul", {"columns": 64}, ((2, 16, 64), (2, 64, 64))),
    ("nn.avg_pool2d", {"pool_size": (3, 3), "padding": (1, 1, 1, 1)}, (_IMAGE,)),
    ("nn.softmax", {"axis": 1}, (_IMAGE,)),
    ("nn.softmax", {"axis": 1}, ((4, 2053),)),
    ("transpose", {"axes": (1, 0)}, ((64, 67),)),
    ("concatenate", {"axis": 1}, ((256, 96), (256, 80))),
    ("sum", {"axis": (1,)}, ((67, 129),)),
    ("nn.relu", {}, ((64, 64),)),
    ("tanh", {}, ((64, 64),)),
)
#: Operators that may keep a row of their operand, or of what they compute of it, in memory of its own;
#: contractions and averages do, too.
_WITH_ROWS = (
    "nn.log_softmax", "nn.attention", "nn.attention_bias", "logsumexp", "cumsum", "topk", "image.resize2d",
)
#: Operators that read elements of their operand after they have written others of the result, with
#: a shape and attributes for which the result is as large as the operand.
_SMALL = (1, 4, 5, 5)
_GATHERING: tuple[tuple[str, tuple[int, ...], Attrs], ...] = (
    ("nn.max_pool2d", _SMALL, {"pool_size": (3, 3), "padding": (1, 1, 1, 1)}),
    ("nn.avg_pool2d", _SMALL, {"pool_size": (3, 3), "padding": (1, 1, 1, 1)}),
    ("nn.conv2d", _SMALL, {"channels": 4, "kernel_size": (3, 3), "padding": (1, 1, 1, 1)}),
    ("transpose", _SMALL, {"axes": (0, 1, 3, 2)}),
    ("nn.softmax", _SMALL, {"axis": 1}),
    ("nn.dense", (3, 5), {"units": 5}),
    ("matmul", (4, 4), {"right": (4, 4)}),
    ("cumsum", (3, 5), {"axis": 0}),
    ("reverse", (3, 5), {"axis": 1}),
)
#: Operators with one operand that is as large as the result.
_IN_PLACE = (*UNARY, "nn.softmax")


@structure
def inputs_of_many_kinds(b: Builder, v: Vocabulary) -> Graph:
    """Operators of several kinds read a dozen inputs of one region (class 7). The inputs' names in
    the code may clash with names that the code of an operator uses itself."""
    kinds = [(name, attrs) for name, shape, attrs in _GATHERING if shape == _SMALL and name in v.offloaded]
    kinds += [(name, {}) for name in sorted(set(v.unary))]
    found = []
    for position in range(12):
        name, attrs = kinds[position % len(kinds)]
        found.append(b.simple(name, b.input(TensorType(_SMALL, "float32")), **attrs))
    y = found[0]
    for other in found[1:]:
        y = b.node(v.binary, (y, other), {})[0]
    return b.graph(y)


@structure
def unused_input(b: Builder, v: Vocabulary) -> Graph:
    """An input that is never read comes before one that is (class 55)."""
    b.input(TensorType((7,), "float32"))
    return b.graph(b.simple(v.unary[0], b.input(_T)))


@structure
def inputs_reversed(b: Builder, v: Vocabulary) -> Graph:
    """Three inputs are read from the last to the first by an operator that does not commute (class
    33)."""
    x, y, z = b.input(_T), b.input(_T), b.input(_T, 0.5, 2.0)
    return b.graph(b.node(v.binary, (z, b.node(v.binary, (y, x), {})[0]), {})[0])


def _forms_that_take_a_while() -> list[Row]:
    """Operators run so long that the threads which run them overlap (class 45). Data gathered for a
    group, window, row or axis, or packed from a second operand that is not a constant, may be where
    another thread puts its own."""
    rows = [row(call(name, *(x(*shape) for shape in shapes), **form)) for name, form, shapes in _FORMS]
    named = {name for name, _, _ in _FORMS}
    others = [op for op in OPERATORS.values() if op.contraction or op.averages or op.name in _WITH_ROWS]
    return [*rows, *(row(call(op.name, x(*large_shape(op)))) for op in others if op.name not in named)]


def _read_again() -> list[Row]:
    """A value inside a region is read once more behind each operator that could compute in its place,
    is returned before one, and is the operand of one that cannot (classes 18, 25, 38)."""
    rows: list[Row] = []
    for name in _IN_PLACE:
        value = two(x(*_SHAPE), x(*_SHAPE, low=0.5, high=2.0))
        rows += [row(two(call(name, value), value)), row(value, call(name, value))]
    for name in BINARY:
        for swapped in (False, True):
            # The value is not near zero, because it may be a divisor.
            value = two(x(*_SHAPE, low=3.0, high=5.0), x(*_SHAPE, low=0.5, high=2.0))
            operands = (value, x(*_SHAPE, low=0.5, high=2.0))
            rows.append(row(two(node(name, *(operands[::-1] if swapped else operands)), value)))
    rows += [row(second(call(name, first(x(*shape)), **attrs))) for name, shape, attrs in _GATHERING]
    return rows


def _bias_read_before() -> list[Row]:
    """A computed bias is read before its layer too, so its memory may not be reused before it is
    added (classes 18, 38)."""
    rows = []
    for name, shape, bias, chosen in (
        ("nn.dense", (3, 8), (8,), {"units": 8}),
        ("nn.conv2d", (1, 4, 5, 6), (4, 1, 1), {"channels": 4, "kernel_size": (2, 3)}),
    ):
        offset = second(x(*bias, low=0.5, high=2.0))
        layer = call(name, first(two(x(*shape), offset)), **chosen)
        rows.append(row(node("add", layer, offset)))
    return rows


def _special_constants() -> list[Row]:
    """A constant holds values that a text or a table may be unable to represent (classes 51, 53)."""
    largest, least = 3.4028234663852886e38, 1.401298464324817e-45
    values: list[Any] = ["inf", "-inf", "nan", -0.0, 0.0, largest, -largest, least, -least]
    # These numbers need nine digits.
    values += [1.0031402553067892e-07, 1.177663762064185e-07, -1.0005203421314945e-07]
    special = constant(*_SHAPE, data=[*values, *(0.1 * i - 1.0 for i in range(30 - len(values)))])
    return [
        row(two(x(*_SHAPE), special)),
        row(node("concatenate", x(*_SHAPE), special, axis=1)),
        row(node("maximum", x(*_SHAPE, low=-2.0, high=-1.0), special)),
    ]


def _uniform_constants() -> list[Row]:
    """Weights, biases and concatenated constants, each in a shape of its own, hold one value
    throughout, and may be stored as one element (classes 5, 26)."""

    def uniform(*shape: int) -> Value:
        return constant(*shape, low=0.75, high=0.75)

    image, matrix = x(1, 3, 5, 4), x(3, 8)
    return [
        row(call("nn.conv2d", image, uniform(4, 3, 3, 2), channels=4, kernel_size=(3, 2))),
        row(node("add", call("nn.conv2d", image, channels=4), uniform(4, 1, 1)), needs=["nn.conv2d"]),
        row(call("nn.dense", matrix, uniform(5, 8), units=5)),
        row(node("add", call("nn.dense", matrix, units=5), uniform(5)), needs=["nn.dense"]),
        row(call("nn.bias_add", matrix, uniform(8), axis=1)),
        row(node("concatenate", matrix, uniform(3, 5), axis=1)),
        row(two(x(*_SHAPE), uniform(*_SHAPE))),
    ]


def _constant_regions() -> list[Row]:
    """A region reads constants alone, or a constant is the first operand of an operator that does not
    commute (classes 5, 30, 33)."""
    return [
        row(two(second(x(*_SHAPE)), first(constant(*_SHAPE)))),
        row(two(constant(*_SHAPE), constant(*_SHAPE, high=1.5)), first(x(*_SHAPE))),
        row(two(constant(*_SHAPE), first(x(*_SHAPE, low=0.5, high=2.0)))),
    ]


def _several_shapes() -> list[Row]:
    """Values are broadcast, or results have different shapes, the one computed last returned first
    (classes 16, 23, 25, 33, 52)."""
    small = first(x(*_ROW, low=0.5, high=2.0))
    wide = two(second(x(*_SHAPE)), small)
    column, line = x(3, 1), x(1, 4, low=0.5, high=2.0)
    several = two(x(3, 5, low=0.5, high=2.0), small)
    return [
        row(wide, second(x(*_SHAPE)), small),
        row(small, two(x(*_SHAPE), small)),
        row(two(two(column, line), x(2, 1, 1, low=0.5, high=2.0))),
        row(two(small, x(*_ROW, low=0.5, high=2.0)), several, two(several, small)),
    ]


def _regions_of_several_sizes() -> list[Row]:
    """One of several regions needs more memory than the others, whichever comes first (classes 7,
    18)."""
    shapes = ((2, 3), (80, 20, 2, 3), (2, 3))
    values = (second(two(first(x(2, 3)), x(*shape, low=0.5, high=2.0))) for shape in shapes)
    return [row(*map(host, values))]


def _permuted(value: Value) -> Value:
    halves = node("split", value, indices_or_sections=2, axis=0)
    return node("concatenate", Field(halves, 1), Field(halves, 0), axis=0)


def _joined(value: Value) -> Value:
    both = node("concatenate", value, x(*_EVEN), axis=0)
    return Field(node("split", both, indices_or_sections=2, axis=0), 1)


def _viewed(value: Value) -> Value:
    return call("reshape", call("reshape", value, newshape=_EVEN[::-1]), newshape=_EVEN)


def _met_again() -> Iterator[Row]:
    """A value meets what was made of it by way of operators that may be left to TVM, or of tuples, which
    may be in no region. A region that held both would depend on itself (classes 2, 34)."""
    for way in (host, _permuted, _joined, _viewed):
        value = first(x(*_EVEN, low=0.5, high=2.0))
        yield row(two(value, way(value)), needs=())
        yield row(two(way(second(value)), value), needs=())
        yield row(two(value, second(way(second(value)))), value, needs=())


def register() -> None:
    """Adds the structures of this file."""
    value = first(x(*_SHAPE))
    add_table("host_between", [second(host(value))], in_full=True)
    add_table("met_again", _met_again(), in_full=True)
    add_table("diamond", [two(second(value), value)], in_full=True)
    add_table("forms_that_take_a_while", _forms_that_take_a_while(), in_full=True)
    add_table("read_again_behind_each", _read_again())
    add_table("bias_read_before", _bias_read_before())
    add_table("special_constants", _special_constants(), in_full=True)
    add_table("uniform_constants", _uniform_constants(), in_full=True)
    add_table("constant_regions", _constant_regions(), in_full=True)
    add_table("several_shapes", _several_shapes(), in_full=True)
    add_table("regions_of_several_sizes", _regions_of_several_sizes())
    doubles = first(x(*_SHAPE, dtype="float64"))
    beside = x(*_SHAPE, dtype="float64", low=0.5, high=2.0)
    add_table("float64_chain", [two(second(two(doubles, beside)), doubles)], in_full=True)
