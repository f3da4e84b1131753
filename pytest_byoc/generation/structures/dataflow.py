"""How values flow: shared, returned, constant, through the host and back."""

from __future__ import annotations

from ...graph import Graph, TensorType
from ...operators.record import Attrs
from ..builder import Builder
from .vocabulary import Unavailable, Vocabulary, need, structure

_T = TensorType((2, 3, 5), "float32")
_MATRIX = TensorType((3, 8), "float32")
_ROW = TensorType((5,), "float32")


@structure
def same_operand_twice(b: Builder, v: Vocabulary) -> Graph:
    """Parameters deduplicated on one side only (class 34)."""
    y = b.simple(v.unary[0], b.input(_T))
    return b.graph(b.node(v.binary if v.binary != "divide" else "add", (y, y), {})[0])


@structure
def diamond(b: Builder, v: Vocabulary) -> Graph:
    """A value with two consumers that meet again."""
    y = b.simple(v.unary[0], b.input(_T))
    return b.graph(b.node(v.binary, (b.simple(v.unary[1], y), y), {})[0])


@structure
def returned_and_consumed(b: Builder, v: Vocabulary) -> Graph:
    """An output that is also used inside the region (classes 25, 48)."""
    y = b.simple(v.unary[0], b.input(_T))
    return b.graph(y, b.simple(v.unary[1], y))


@structure
def returned_twice(b: Builder, v: Vocabulary) -> Graph:
    """The same value as two outputs: the second buffer stays unwritten (class 49)."""
    y = b.simple(v.unary[0], b.input(_T))
    return b.graph(y, y)


@structure
def input_returned(b: Builder, v: Vocabulary) -> Graph:
    """A graph input among the outputs (class 49)."""
    x = b.input(_T)
    return b.graph(b.simple(v.unary[0], x), x)


@structure
def outputs_reversed(b: Builder, v: Vocabulary) -> Graph:
    """Outputs of different shapes, the last made first (class 33)."""
    x, z = b.input(_T), b.input(TensorType((5,), "float32"))
    a = b.simple(v.unary[0], z)
    c = b.simple(v.unary[1], x)
    d = b.node(v.binary, (c, a), {})[0]
    return b.graph(d, c, a)


@structure
def outputs_growing(b: Builder, v: Vocabulary) -> Graph:
    """Outputs of different shapes, the smallest first: its size is not that of all (class 25)."""
    a = b.simple(v.unary[0], b.input(TensorType((5,), "float32")))
    c = b.node(v.binary, (b.input(_T), a), {})[0]
    return b.graph(a, c)


@structure
def inputs_reversed(b: Builder, v: Vocabulary) -> Graph:
    """Three inputs used last to first by an operator that does not commute (class 33)."""
    x, y, z = b.input(_T), b.input(_T), b.input(_T, 0.5, 2.0)
    return b.graph(b.node(v.binary, (z, b.node(v.binary, (y, x), {})[0]), {})[0])


@structure
def constant_first(b: Builder, v: Vocabulary) -> Graph:
    """(constant, variable) of an operator that does not commute (classes 5, 33)."""
    x = b.simple(v.unary[0], b.input(_T, 0.5, 2.0))
    return b.graph(b.node(v.binary, (b.constant(_T), x), {})[0])


@structure
def constants_of_one_shape(b: Builder, v: Vocabulary) -> Graph:
    """Two constants of one shape and different values in one region (class 26)."""
    x = b.input(_T)
    y = b.node(v.binary, (x, b.constant(_T, 0.5, 2.0)), {})[0]
    return b.graph(b.node(v.binary, (y, b.constant(_T, 0.5, 2.0)), {})[0])


@structure
def uniform_constants(b: Builder, v: Vocabulary) -> Graph:
    """Constants that hold one value throughout, which may be kept as one element or not at all (class 26)."""
    ones, twos = (b.constant(_T, data=[value] * _T.size) for value in (1.0, 2.0))
    y = b.node(v.binary, (b.input(_T), ones), {})[0]
    return b.graph(b.node(v.binary, (y, twos), {})[0])


@structure
def equal_constants(b: Builder, v: Vocabulary) -> Graph:
    """Constants of the same bytes and other shapes, which are not the same (class 26)."""
    types = [TensorType(shape, "float32") for shape in ((4, 4), (4,), (4, 1))]
    row, column = (b.constant(t, data=[0.5, 1.25, -0.75, 2.0]) for t in types[1:])
    y = b.node(v.binary, (b.input(types[0]), row), {})[0]
    return b.graph(b.node(v.binary, (y, column), {})[0])


@structure
def mirrored_constants(b: Builder, v: Vocabulary) -> Graph:
    """Constants of the same numbers in another order: of one sum, and not the same (class 26)."""
    data = [0.25 * i - 1.0 if i % 3 else 0.5 for i in range(_T.size)]
    there, back = (b.constant(_T, data=numbers) for numbers in (data, data[::-1]))
    y = b.node(v.binary, (b.input(_T), there), {})[0]
    return b.graph(b.node(v.binary, (y, back), {})[0])


@structure
def many_constants(b: Builder, v: Vocabulary) -> Graph:
    """More constants in one region than have names of one digit (class 26)."""
    y = b.input(_ROW)
    for _ in range(12):
        # Not one behind the other: TVM 0.16 gives up simplifying so many additions.
        y = b.node(v.binary, (b.simple(v.unary[0], y), b.constant(_ROW, 0.5, 1.5)), {})[0]
    return b.graph(y)


@structure
def special_constant(b: Builder, v: Vocabulary) -> Graph:
    """A constant of values that a text or a table may have no form for (classes 51, 53)."""
    largest, least = 3.4028234663852886e38, 1.401298464324817e-45
    values = ["inf", "-inf", "nan", -0.0, 0.0, largest, -largest, least, -least]
    data = [*values, *(0.1 * i - 1.0 for i in range(_T.size - len(values)))]
    return b.graph(b.node(v.binary, (b.input(_T), b.constant(_T, data=data)), {})[0])


@structure
def scalar_constant(b: Builder, v: Vocabulary) -> Graph:
    """Rank-0 constants on either side (class 23)."""
    scalar = TensorType((), "float32")
    y = b.node(v.binary, (b.input(_T), b.constant(scalar, 0.5, 1.5)), {})[0]
    return b.graph(b.node(v.binary, (b.constant(scalar, 1.0, 2.0), y), {})[0])


@structure
def constant_only(b: Builder, v: Vocabulary) -> Graph:
    """A region fed by constants alone, beside one that is not (classes 5, 30)."""
    y = b.simple(v.unary[0], b.constant(_T))
    return b.graph(b.node(v.binary, (b.simple(v.unary[1], b.input(_T)), y), {})[0])


@structure
def constant_result(b: Builder, v: Vocabulary) -> Graph:
    """A region that has no input at all, beside one that has (class 30)."""
    constant = b.node(v.binary, (b.constant(_T), b.constant(_T, 0.5, 1.5)), {})[0]
    return b.graph(constant, b.simple(v.unary[0], b.input(_T)))


@structure
def shared_constant(b: Builder, v: Vocabulary) -> Graph:
    """One constant used by two regions (class 26)."""
    c = b.constant(_T, 0.5, 2.0)
    y = b.node(v.binary, (b.input(_T), c), {})[0]
    return b.graph(b.node(v.binary, (b.simple(v.host, y), c), {})[0])


@structure
def equal_regions(b: Builder, v: Vocabulary) -> Graph:
    """Two regions that differ in the values of their constant only (classes 7, 26)."""
    y = b.node(v.binary, (b.input(_T), b.constant(_T, 0.5, 2.0)), {})[0]
    return b.graph(b.node(v.binary, (b.simple(v.host, y), b.constant(_T, 0.5, 2.0)), {})[0])


@structure
def identical_regions(b: Builder, v: Vocabulary) -> Graph:
    """Two regions that are the same to the letter (class 7)."""
    y = b.simple(v.unary[0], b.input(_T))
    return b.graph(b.simple(v.unary[0], b.simple(v.host, y)))


@structure
def equal_dense(b: Builder, v: Vocabulary) -> Graph:
    """Two layers of one shape with different weights (class 26)."""
    need(v, "nn.dense")
    y = b.simple("nn.dense", b.input(_MATRIX), units=8)
    return b.graph(b.simple("nn.dense", b.simple(v.host, y), units=8))


@structure
def shared_weight(b: Builder, v: Vocabulary) -> Graph:
    """One weight used by two layers (class 26)."""
    need(v, "nn.dense")
    w = b.constant(TensorType((8, 8), "float32"), -1.0, 1.0)
    y = b.simple("nn.dense", b.input(_MATRIX), w, units=8)
    return b.graph(b.simple("nn.dense", b.simple(v.host, y), w, units=8))


@structure
def shared_weight_inside(b: Builder, v: Vocabulary) -> Graph:
    """One weight used by two layers of one region (class 26)."""
    need(v, "nn.dense")
    w = b.constant(TensorType((8, 8), "float32"), -1.0, 1.0)
    y = b.simple("nn.dense", b.input(_MATRIX), w, units=8)
    return b.graph(b.simple("nn.dense", b.simple(v.unary[0], y), w, units=8))


@structure
def host_between(b: Builder, v: Vocabulary) -> Graph:
    """Target, host, target."""
    return b.graph(b.simple(v.unary[1], b.simple(v.host, b.simple(v.unary[0], b.input(_T)))))


@structure
def skip_around_host(b: Builder, v: Vocabulary) -> Graph:
    """A merged region would depend on itself through the host's operator (class 19)."""
    a = b.simple(v.unary[0], b.input(_T))
    return b.graph(b.node(v.binary, (a, b.simple(v.host, a)), {})[0])


@structure
def two_branches_around_host(b: Builder, v: Vocabulary) -> Graph:
    """The same with work of the target's on both branches (class 19)."""
    a = b.simple(v.unary[0], b.input(_T))
    h = b.simple(v.host, a)
    c = b.simple(v.unary[1], a)
    return b.graph(b.node(v.binary, (b.simple(v.unary[0], h), c), {})[0], c)


@structure
def alternating(b: Builder, v: Vocabulary) -> Graph:
    """Target and host in turn (class 57)."""
    y = b.input(_T)
    for _ in range(3):
        y = b.simple(v.host, b.simple(v.unary[0], y))
    return b.graph(b.simple(v.unary[1], y))


@structure
def long_chain(b: Builder, v: Vocabulary) -> Graph:
    """Many intermediate buffers live one after the other (class 18)."""
    y = b.input(_T)
    c = b.constant(_T, 0.5, 2.0)
    for i in range(4):
        y = b.simple(v.unary[i % 2], y)
        y = b.node(v.binary, (y, c), {})[0]
    return b.graph(y)


@structure
def deep_chain(b: Builder, v: Vocabulary) -> Graph:
    """More operators in one region than a table of a fixed size may have room for (classes 1, 18)."""
    y = b.input(_T)
    c = b.constant(_T, 0.5, 2.0)
    for i in range(20):
        y = b.simple(v.unary[i // 2 % 2], y) if i % 2 else b.node(v.binary, (y, c), {})[0]
    return b.graph(y)


@structure
def equal_but_for_attributes(b: Builder, v: Vocabulary) -> Graph:
    """One operator twice on one shape, with other attributes (class 44)."""
    need(v, "transpose")
    y = b.simple("transpose", b.input(TensorType((3, 3, 3), "float32")), axes=(1, 2, 0))
    return b.graph(b.simple("transpose", b.simple(v.unary[0], y), axes=(0, 2, 1)))


@structure
def transposes_in_a_row(b: Builder, v: Vocabulary) -> Graph:
    """Two that don't commute, which may be made one (class 10)."""
    need(v, "transpose")
    y = b.simple("transpose", b.input(TensorType((3, 3, 3), "float32")), axes=(1, 2, 0))
    return b.graph(b.simple(v.unary[0], b.simple("transpose", y, axes=(0, 2, 1))))


#: Operators whose results are of one shape whatever these attributes.
_TWICE: tuple[tuple[str, Attrs, Attrs], ...] = (
    ("transpose", {"axes": (1, 2, 0)}, {"axes": (0, 2, 1)}),
    ("nn.softmax", {"axis": 0}, {"axis": -1}),
    ("clip", {"a_min": -0.5, "a_max": 1.5}, {"a_min": -1.5, "a_max": 0.75}),
    ("nn.leaky_relu", {"alpha": 0.125}, {"alpha": 0.5}),
)


@structure
def same_operand_other_attributes(b: Builder, v: Vocabulary) -> Graph:
    """One operator twice on one tensor: what tells the two apart is their attributes (classes 10, 44)."""
    found = [t for t in _TWICE if t[0] in v.claimed]
    if not found:
        raise Unavailable("the target takes none of " + ", ".join(t[0] for t in _TWICE))
    name, one, other = found[0]
    x = b.input(TensorType((3, 3, 3), "float32"))
    return b.graph(b.node(v.binary, (b.simple(name, x, **one), b.simple(name, x, **other)), {})[0])


@structure
def float64_chain(b: Builder, v: Vocabulary) -> Graph:
    """Intermediates of eight bytes an element (class 18)."""
    type_ = TensorType((2, 3, 5), "float64")
    y = b.simple(v.unary[0], b.input(type_))
    z = b.node(v.binary, (y, b.input(type_, 0.5, 2.0)), {})[0]
    return b.graph(b.node(v.binary, (b.simple(v.unary[1], z), y), {})[0])


@structure
def several_alive(b: Builder, v: Vocabulary) -> Graph:
    """Intermediates that are needed again late: buffers reused too early (class 18)."""
    x = b.input(_T)
    first = b.simple(v.unary[0], x)
    second = b.simple(v.unary[1], x)
    third = b.node(v.binary, (first, second), {})[0]
    fourth = b.simple(v.unary[1], third)
    fifth = b.node(v.binary, (fourth, first), {})[0]
    return b.graph(b.node(v.binary, (b.node(v.binary, (fifth, second), {})[0], third), {})[0])


@structure
def many_inputs(b: Builder, v: Vocabulary) -> Graph:
    """Nine inputs of one region."""
    y = b.input(_T)
    for _ in range(8):
        y = b.node(v.binary, (y, b.input(_T, 0.5, 1.5)), {})[0]
    return b.graph(y)


@structure
def dead_code(b: Builder, v: Vocabulary) -> Graph:
    """Values nobody uses (class 55)."""
    x = b.input(_T)
    y = b.simple(v.unary[0], x)
    b.simple(v.unary[1], y)
    b.node(v.binary, (x, x), {})
    return b.graph(y)


@structure
def unused_input(b: Builder, v: Vocabulary) -> Graph:
    """A parameter nobody uses, before one that is (class 55)."""
    b.input(TensorType((7,), "float32"))
    return b.graph(b.simple(v.unary[0], b.input(_T)))


@structure
def broadcast_both(b: Builder, v: Vocabulary) -> Graph:
    """Both operands are broadcast, and the result is used with a third shape (classes 16, 23)."""
    a = b.input(TensorType((3, 1), "float32"))
    c = b.input(TensorType((1, 4), "float32"), 0.5, 2.0)
    y = b.node(v.binary, (a, c), {})[0]
    return b.graph(b.node(v.binary, (y, b.input(TensorType((2, 1, 1), "float32"), 0.5, 2.0)), {})[0])


@structure
def large(b: Builder, v: Vocabulary) -> Graph:
    """Some 70,000 elements: buffers that don't fit where small ones do (class 18)."""
    type_ = TensorType((3, 157, 149), "float32")
    y = b.simple(v.unary[0], b.input(type_))
    return b.graph(b.node(v.binary, (y, b.input(type_, 0.5, 2.0)), {})[0])


@structure
def large_between(b: Builder, v: Vocabulary) -> Graph:
    """Small operands, and intermediates of 9 MB: more than a stack holds (class 18)."""
    column = b.input(TensorType((1531, 1), "float32"))
    row = b.input(TensorType((1, 1489), "float32"), 0.5, 2.0)
    y = b.simple(v.unary[0], b.node(v.binary, (column, row), {})[0])
    reduction = next((o for o in ("max", "mean", "sum") if o in v.claimed), None)
    return b.graph(b.simple(reduction, y) if reduction else b.simple(v.unary[1], y))


@structure
def split_and_join(b: Builder, v: Vocabulary) -> Graph:
    """Tuple results taken apart, used out of order and joined (class 2)."""
    need(v, "split", "concatenate")
    parts = b.node("split", (b.input(TensorType((2, 6, 5), "float32")),), _split_attrs(3, 1))
    return b.graph(b.node("concatenate", (b.simple(v.unary[0], parts[2]), parts[0]), {"axis": 1})[0])


@structure
def split_returned(b: Builder, v: Vocabulary) -> Graph:
    """All fields of a tuple returned, last first (classes 2, 33)."""
    need(v, "split")
    parts = b.node("split", (b.input(TensorType((2, 6, 5), "float32")),), _split_attrs(3, 1))
    return b.graph(*reversed(parts))


@structure
def concatenate_itself(b: Builder, v: Vocabulary) -> Graph:
    """One value three times in a tuple (class 34)."""
    need(v, "concatenate")
    y = b.simple(v.unary[0], b.input(_T))
    return b.graph(b.node("concatenate", (y, y, y), {"axis": 1})[0])


def _split_attrs(sections: int, axis: int) -> dict[str, object]:
    return {"indices_or_sections": sections, "axis": axis}
