"""Small graphs of named shapes: the ways values can flow that trip partitioners and codegens.

Operators are chosen for the target: `unary`, `binary` … are ones it takes, `host` is one it does
not. Each structure is one function; its docstring says what goes wrong there in practice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..graph import Graph, TensorType
from .builder import Builder

_T = TensorType((2, 3, 5), "float32")
_IMAGE = TensorType((2, 4, 6, 5), "float32")
_MATRIX = TensorType((3, 8), "float32")


@dataclass(frozen=True)
class Vocabulary:
    """Operators to build structures from. unary: two taken by the target; binary: one that does not
    commute, if there is one; host: a unary one left to TVM; claimed: every operator it takes."""

    unary: tuple[str, str]
    binary: str
    host: str
    claimed: frozenset[str]


class Unavailable(Exception):
    """Raised where a structure needs an operator the target does not take."""


Structure = Callable[[Builder, Vocabulary], Graph]
STRUCTURES: dict[str, Structure] = {}

#: Preferred operators of a vocabulary, by what they are used as.
UNARY = ("nn.relu", "tanh", "negative", "abs", "sigmoid", "exp", "clip", "nn.leaky_relu", "ceil")
BINARY = ("subtract", "divide", "add", "multiply", "maximum", "minimum")
HOST = ("floor", "ceil", "log", "abs", "negative", "exp", "tanh", "sigmoid", "nn.relu")


def vocabulary(claimed: frozenset[str], ir: str) -> Vocabulary:
    """Raises Unavailable when the target takes no unary or no binary elementwise operator."""
    unary = [o for o in UNARY if o in claimed]
    binary = [o for o in BINARY if o in claimed]
    # log is kept to its domain by nothing here: it comes late in the list.
    host = [o for o in HOST if o not in claimed]
    if not unary:
        raise Unavailable("the target takes none of " + ", ".join(UNARY))
    if not binary:
        raise Unavailable("the target takes none of " + ", ".join(BINARY))
    if not host:
        raise Unavailable("the target takes all of " + ", ".join(HOST))
    return Vocabulary((unary[0], unary[-1 if len(unary) > 1 else 0]), binary[0], host[0], claimed)


def structure(function: Structure) -> Structure:
    STRUCTURES[function.__name__.lstrip("_")] = function
    return function


def _need(v: Vocabulary, *operators: str) -> None:
    missing = [o for o in operators if o not in v.claimed]
    if missing:
        raise Unavailable("the target does not take " + ", ".join(missing))


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
    _need(v, "nn.dense")
    y = b.simple("nn.dense", b.input(_MATRIX), units=8)
    return b.graph(b.simple("nn.dense", b.simple(v.host, y), units=8))


@structure
def shared_weight(b: Builder, v: Vocabulary) -> Graph:
    """One weight used by two layers (class 26)."""
    _need(v, "nn.dense")
    w = b.constant(TensorType((8, 8), "float32"), -1.0, 1.0)
    y = b.simple("nn.dense", b.input(_MATRIX), w, units=8)
    return b.graph(b.simple("nn.dense", b.simple(v.host, y), w, units=8))


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
def split_and_join(b: Builder, v: Vocabulary) -> Graph:
    """Tuple results taken apart, used out of order and joined (class 2)."""
    _need(v, "split", "concatenate")
    parts = b.node("split", (b.input(TensorType((2, 6, 5), "float32")),), _split_attrs(3, 1))
    return b.graph(b.node("concatenate", (b.simple(v.unary[0], parts[2]), parts[0]), {"axis": 1})[0])


@structure
def split_returned(b: Builder, v: Vocabulary) -> Graph:
    """All fields of a tuple returned, last first (classes 2, 33)."""
    _need(v, "split")
    parts = b.node("split", (b.input(TensorType((2, 6, 5), "float32")),), _split_attrs(3, 1))
    return b.graph(*reversed(parts))


@structure
def concatenate_itself(b: Builder, v: Vocabulary) -> Graph:
    """One value three times in a tuple (class 34)."""
    _need(v, "concatenate")
    y = b.simple(v.unary[0], b.input(_T))
    return b.graph(b.node("concatenate", (y, y, y), {"axis": 1})[0])


def _split_attrs(sections: int, axis: int) -> dict[str, object]:
    return {"indices_or_sections": sections, "axis": axis}


def _convolution(b: Builder, x: str) -> str:
    return b.simple("nn.conv2d", x, padding=(0, 1, 2, 3), strides=(1, 2))


def _bias(b: Builder, y: str) -> str:
    channels = b.types[y].shape[1]
    return b.node("add", (y, b.constant(TensorType((1, channels, 1, 1), "float32"))), {})[0]


@structure
def conv_bias_relu(b: Builder, v: Vocabulary) -> Graph:
    """The pattern every target has."""
    _need(v, "nn.conv2d")
    return b.graph(b.simple("nn.relu", _bias(b, _convolution(b, b.input(_IMAGE)))))


@structure
def conv_bias_add_relu(b: Builder, v: Vocabulary) -> Graph:
    """The same with nn.bias_add."""
    _need(v, "nn.conv2d")
    y = b.simple("nn.bias_add", _convolution(b, b.input(_IMAGE)), axis=1)
    return b.graph(b.simple("nn.relu", y))


@structure
def conv_relu(b: Builder, v: Vocabulary) -> Graph:
    """The pattern without its bias (class 10)."""
    _need(v, "nn.conv2d")
    return b.graph(b.simple("nn.relu", _convolution(b, b.input(_IMAGE))))


@structure
def conv_bias_returned(b: Builder, v: Vocabulary) -> Graph:
    """An intermediate of the pattern is returned too: fusing it away loses it (class 48)."""
    _need(v, "nn.conv2d")
    y = _convolution(b, b.input(_IMAGE))
    z = _bias(b, y)
    return b.graph(b.simple("nn.relu", z), y, z)


@structure
def conv_bias_to_host(b: Builder, v: Vocabulary) -> Graph:
    """An intermediate of the pattern is used by the host (class 48)."""
    _need(v, "nn.conv2d")
    z = _bias(b, _convolution(b, b.input(_IMAGE)))
    return b.graph(b.simple("nn.relu", z), b.simple(v.host, z))


@structure
def conv_residual(b: Builder, v: Vocabulary) -> Graph:
    """Adding a tensor where the pattern has its bias (classes 10, 16)."""
    _need(v, "nn.conv2d")
    x = b.input(_IMAGE)
    y = b.simple("nn.conv2d", x, kernel_size=(1, 1), channels=4)
    return b.graph(b.simple("nn.relu", b.node("add", (y, x), {})[0]))


@structure
def conv_chain(b: Builder, v: Vocabulary) -> Graph:
    """Two patterns in a row, their weights of one shape (class 26)."""
    _need(v, "nn.conv2d")
    y = b.input(_IMAGE)
    for _ in range(2):
        y = b.simple("nn.relu", _bias(b, b.simple("nn.conv2d", y, channels=4, padding=(1, 1, 1, 1))))
    return b.graph(y)


@structure
def dense_bias_relu(b: Builder, v: Vocabulary) -> Graph:
    """The pattern with a matrix product."""
    _need(v, "nn.dense")
    y = b.simple("nn.dense", b.input(_MATRIX), units=5)
    y = b.node("add", (y, b.constant(TensorType((5,), "float32"))), {})[0]
    return b.graph(b.simple("nn.relu", y))


@structure
def dense_bias_add_tanh(b: Builder, v: Vocabulary) -> Graph:
    """The same with nn.bias_add and another activation."""
    _need(v, "nn.dense")
    y = b.simple("nn.bias_add", b.simple("nn.dense", b.input(_MATRIX), units=5), axis=-1)
    return b.graph(b.simple("tanh", y))


@structure
def dense_clip(b: Builder, v: Vocabulary) -> Graph:
    """An activation with odd bounds behind the pattern (class 35)."""
    _need(v, "nn.dense")
    y = b.simple("nn.dense", b.input(_MATRIX), units=5)
    return b.graph(b.simple("clip", y, a_min=-1.3, a_max=1.1))
