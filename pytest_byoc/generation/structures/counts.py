"""Structures with more inputs, nodes or constants than a table, a digit or a stack has room for."""

from __future__ import annotations

from ...core.graph import Graph, TensorType
from ..builder import Builder
from .vocabulary import Unavailable, Vocabulary, fields, numeric_structure, structure

_T = TensorType((2, 3, 5), "float32")
_ROW = TensorType((5,), "float32")


@structure
def long_chain(b: Builder, v: Vocabulary) -> Graph:
    """Intermediate buffers are live one after the other, in a chain of eight operators (class
    18)."""
    y = b.input(_T)
    c = b.constant(_T, 0.5, 2.0)
    for i in range(4):
        y = b.simple(v.unary[i % 2], y)
        y = b.node(v.binary, (y, c), {})[0]
    return b.graph(y)


@structure
def deep_chain(b: Builder, v: Vocabulary) -> Graph:
    """One region has more operators than a table of a fixed size may have room for (classes 1,
    18)."""
    return b.graph(_chain(b, v, 20))


@structure
def many_inputs(b: Builder, v: Vocabulary) -> Graph:
    """One region has nine inputs."""
    y = b.input(_T)
    for _ in range(8):
        y = b.node(v.binary, (y, b.input(_T, 0.5, 1.5)), {})[0]
    return b.graph(y)


@numeric_structure
def dozens_of_tensors(b: Builder, v: Vocabulary) -> Graph:
    """One region has more inputs, or results, than arrays of a fixed size have room for (classes
    18, 25)."""
    v.of(("concatenate", "split"))
    found = []
    if "concatenate" in v.offloaded:
        found.append(b.node("concatenate", [b.input(_T) for _ in range(66)], {"axis": 0})[0])
    if "split" in v.offloaded:
        found.extend(fields(b, b.input(TensorType((2, 66), "float32")), 66, 1))
    return b.graph(*found)


@numeric_structure
def counted_by_bytes(b: Builder, v: Vocabulary) -> Graph:
    """Numbers of elements along one axis or two are just too large for a byte, signed or unsigned
    (class 18)."""
    found = []
    for shape in ((128,), (2, 64), (256,), (16, 16), (2, 256)):
        x = b.input(TensorType(shape, "float32"))
        found.append(b.node(v.binary, (b.simple(v.unary[0], x), x), {})[0])
    return b.graph(*found)


@structure
def many_constants(b: Builder, v: Vocabulary) -> Graph:
    """One region has more constants than there are names with one digit (class 26)."""
    y = b.input(_ROW)
    for _ in range(12):
        # The additions do not follow each other directly: TVM 0.16 gives up simplifying so many.
        y = b.node(v.binary, (b.simple(v.unary[0], y), b.constant(_ROW, 0.5, 1.5)), {})[0]
    return b.graph(y)


@numeric_structure
def many_regions(b: Builder, v: Vocabulary) -> Graph:
    """A graph has more regions, each with a constant, than there are names with one digit (classes
    7, 26)."""
    outputs = []
    for _ in range(12):
        y = b.node(v.binary, (b.input(_ROW), b.constant(_ROW, 0.5, 1.5)), {})[0]
        outputs.append(b.simple(v.unary[0], b.simple(v.host, y)))
    return b.graph(*outputs)


@structure
def each_once(b: Builder, v: Vocabulary) -> Graph:
    """The graph holds every operator and pattern that the target offloads, each by itself (classes
    18, 28). A few checks of one graph show whether one of them leaves something behind, or reads or
    writes outside its memory."""
    parts = v.parts()
    if not parts:
        raise Unavailable("the target offloads no operator in its simplest form, and no pattern")
    return b.graph(*(value for part in parts for value in b.splice(part, lambda type_: None)))


@numeric_structure
def hundreds_in_a_row(b: Builder, v: Vocabulary) -> Graph:
    """A graph is as deep as large models (class 4). Visiting it by recursion in Python, with two
    calls for an operator, exceeds the limit of 1,000 calls."""
    return b.graph(_chain(b, v, 520))


@numeric_structure
def diamonds_in_a_row(b: Builder, v: Vocabulary) -> Graph:
    """Each value is read twice to make the next one, so there are two to the power of 26 paths to
    follow (class 4). The operators between are ones that TVM inlines nowhere: it would follow the
    paths itself."""
    first = v.of(("nn.softmax", "nn.dense"))[0]
    y = b.input(TensorType((3, 5), "float32"))
    weights = TensorType((5, 5), "float32")
    for _ in range(26):
        if first == "nn.softmax":
            other = b.simple(first, y)
        else:
            other = b.simple(first, y, b.constant(weights, -0.15, 0.15), units=5)
        y = b.node(v.binary, (other, y), {})[0]
    return b.graph(y)


def _chain(b: Builder, v: Vocabulary, operators: int) -> str:
    y = b.input(_T)
    c = b.constant(_T, 0.5, 2.0)
    for i in range(operators):
        y = b.simple(v.unary[i // 2 % 2], y) if i % 2 else b.node(v.binary, (y, c), {})[0]
    return y
