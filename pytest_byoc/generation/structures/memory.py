"""Structures of values whose memory may be reused too early, and of memory of unusual size."""

from __future__ import annotations

from ...core.graph import Graph, TensorType
from ..builder import Builder
from .vocabulary import BINARY, UNARY, Vocabulary, need, numeric_structure, structure

_T, _CUBE = TensorType((2, 3, 5), "float32"), TensorType((2, 3, 4), "float32")
#: Operators with one operand that is as large as the result.
_IN_PLACE = (*UNARY, "nn.softmax")


@numeric_structure
def read_again_behind_each(b: Builder, v: Vocabulary) -> Graph:
    """A value inside a region is read once more behind each operator that could compute in its
    place (class 38)."""
    outputs = list[str]()
    binary = v.of(BINARY)
    for op in (o for o in _IN_PLACE if o in v.offloaded):
        y = b.node(v.binary, (b.input(_T), b.input(_T, 0.5, 2.0)), {})[0]
        outputs += b.node(v.binary, (b.simple(op, y), y), {})
    for op in binary:
        for second in (False, True):
            # y is not near zero, because it may be a divisor.
            y = b.node(v.binary, (b.input(_T, 3.0, 5.0), b.input(_T, 0.5, 2.0)), {})[0]
            other = b.input(_T, 0.5, 2.0)
            z = b.node(op, (other, y) if second else (y, other), {})[0]
            outputs += b.node(v.binary, (z, y), {})
    return b.graph(*outputs)


@numeric_structure
def returned_and_read_by_each(b: Builder, v: Vocabulary) -> Graph:
    """A result of a region is read inside it by each operator that could compute in its place
    (classes 25, 38)."""
    outputs = list[str]()
    for op in v.of(_IN_PLACE):
        y = b.node(v.binary, (b.input(_T), b.input(_T, 0.5, 2.0)), {})[0]
        outputs += (y, b.simple(op, y))
    return b.graph(*outputs)


@numeric_structure
def view_needed_late(b: Builder, v: Vocabulary) -> Graph:
    """A reshaped value is read after the last reader of the value itself, and after other values of
    its size (classes 18, 38)."""
    need(v, "reshape")
    y = b.simple("reshape", b.simple(v.unary[0], b.input(_CUBE)), newshape=(6, 4))
    other = b.simple(v.unary[1], b.input(TensorType((6, 4), "float32")))
    other = b.node(v.binary, (other, b.constant(TensorType((6, 4), "float32"), 0.5, 2.0)), {})[0]
    return b.graph(b.node(v.binary, (y, other), {})[0])


@numeric_structure
def viewed_and_read(b: Builder, v: Vocabulary) -> Graph:
    """A value is read after an operator that may work in place has read a view of it (class 38)."""
    need(v, "reshape")
    y = b.simple(v.unary[0], b.input(_CUBE, 0.5, 2.0))
    z = b.simple(v.unary[1], b.simple("reshape", y, newshape=(6, 4)))
    return b.graph(b.node(v.binary, (b.simple("reshape", z, newshape=_CUBE.shape), y), {})[0])


@numeric_structure
def computed_and_joined(b: Builder, v: Vocabulary) -> Graph:
    """Four values are all computed before the first is read, and they are read in another order
    (classes 18, 38)."""
    need(v, "concatenate")
    unary = [o for o in UNARY if o in v.offloaded]

    def value() -> str:
        x = b.input(_CUBE)
        if unary:
            return b.simple(unary[0], x)
        return b.node("concatenate", (x, b.input(_CUBE)), {"axis": 1})[0]

    one, two, three, four = (value() for _ in range(4))
    return b.graph(b.node("concatenate", (three, one, four, two), {"axis": 1})[0])


@structure
def several_alive(b: Builder, v: Vocabulary) -> Graph:
    """Intermediate values are read again late, and their buffers may be reused too early (class
    18)."""
    x = b.input(_T)
    first = b.simple(v.unary[0], x)
    second = b.simple(v.unary[1], x)
    third = b.node(v.binary, (first, second), {})[0]
    fourth = b.simple(v.unary[1], third)
    fifth = b.node(v.binary, (fourth, first), {})[0]
    return b.graph(b.node(v.binary, (b.node(v.binary, (fifth, second), {})[0], third), {})[0])


@numeric_structure
def large_between(b: Builder, v: Vocabulary) -> Graph:
    """Operands are small, and intermediate values have 9 MB, which is more than a stack holds
    (class 18). The structure has no further checks because hundreds of runs of it would take too
    long."""
    column = b.input(TensorType((1531, 1), "float32"))
    row = b.input(TensorType((1, 1489), "float32"), 0.5, 2.0)
    y = b.simple(v.unary[0], b.node(v.binary, (column, row), {})[0])
    reduction = next((o for o in ("max", "mean", "sum") if o in v.offloaded), None)
    return b.graph(b.simple(reduction, y) if reduction else b.simple(v.unary[1], y))


@structure
def joined_twice(b: Builder, v: Vocabulary) -> Graph:
    """Two tuples hold one value, which can lie in the result of only one of them (class 38)."""
    need(v, "concatenate")
    y, x = b.simple(v.unary[0], b.input(_T)), b.input(_T)
    pairs = ((y, x), (b.simple(v.unary[1], x), y))
    return b.graph(*(b.node("concatenate", pair, {"axis": 0})[0] for pair in pairs))
