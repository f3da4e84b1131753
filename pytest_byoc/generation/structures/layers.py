"""Structures of layers as models have them.

They have a batch of one, the usual layouts, and one parameter at a time that differs from its
default, so that they show the faults of a target that refuses most other graphs. Some have two
layers in a row, whose weights may be exchanged."""

from __future__ import annotations

from ...core.graph import Graph, TensorType
from ...operators.record import Attrs
from ..builder import Builder
from .vocabulary import UNARY, Vocabulary, biased, need, numeric_structure, structure

_IMAGE = TensorType((1, 4, 7, 6), "float32")
#: Parameters off their defaults, for one layer each.
_CONVOLUTIONS: tuple[Attrs, ...] = (
    {"kernel_size": (3, 3), "strides": (1, 2)},
    {"kernel_size": (3, 3), "strides": (2, 1), "padding": (1, 1, 1, 1)},
    {"kernel_size": (3, 3), "padding": (1, 0, 2, 3)},
    {"kernel_size": (1, 1), "padding": (1, 2, 1, 2)},
    {"kernel_size": (3, 2), "dilation": (1, 2)},
    {"kernel_size": (3, 3), "groups": 2},
    {"kernel_size": (3, 3), "groups": 4, "padding": (1, 1, 1, 1)},
    {"kernel_size": (3, 3), "groups": 4, "channels": 8},
    {"kernel_size": (2, 1), "strides": (5, 5)},
    # The window is as large as the image, and with its padding reaches outside it.
    {"kernel_size": (7, 6), "strides": (7, 6), "padding": (1, 2, 1, 0)},
)
_POOLINGS: tuple[Attrs, ...] = (
    {"pool_size": (2, 3), "strides": (1, 2)},
    {"pool_size": (3, 3), "padding": (1, 0, 2, 1)},
    {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1)},
    {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1), "ceil_mode": True},
    {"pool_size": (2, 2), "strides": (2, 2), "ceil_mode": True},
    {"pool_size": (7, 6), "strides": (7, 6), "padding": (1, 2, 1, 0)},
)


@structure
def plain_convolutions(b: Builder, v: Vocabulary) -> Graph:
    """Strides, paddings, dilation and groups differ from their defaults, one at a time (classes 14,
    40, 41)."""
    need(v, "nn.conv2d")
    return b.graph(*(b.simple("nn.conv2d", b.input(_IMAGE), **{"channels": 4, **c}) for c in _CONVOLUTIONS))


@structure
def plain_poolings(b: Builder, v: Vocabulary) -> Graph:
    """Strides, paddings and ceil_mode differ from their defaults, one at a time, and padding counts
    in the mean or not (classes 14, 36, 40)."""
    names, outputs = v.of(("nn.max_pool2d", "nn.avg_pool2d")), list[str]()
    for name in names:
        for chosen in _POOLINGS:
            counted: list[Attrs] = [{}]
            if name == "nn.avg_pool2d" and "padding" in chosen:
                counted = [{"count_include_pad": False}, {"count_include_pad": True}]
            # All elements are below zero, so that the zeros of a padding are the largest.
            outputs += (b.simple(name, b.input(_IMAGE, -2.0, -0.5), **chosen, **more) for more in counted)
    return b.graph(*outputs)


@numeric_structure
def plain_products(b: Builder, v: Vocabulary) -> Graph:
    """Products have one row, one column or several of both, transposed or not (classes 14, 23)."""
    v.of(("nn.batch_matmul", "matmul"))
    outputs = list[str]()
    attrs = {"transpose_a": False, "out_dtype": "float32"}
    for rows, columns in ((1, 5), (3, 1), (3, 5)):
        x = TensorType((2, rows, 4), "float32")
        for transposed in (False, True) if "nn.batch_matmul" in v.offloaded else ():
            y = TensorType((2, columns, 4) if transposed else (2, 4, columns), "float32")
            chosen = {**attrs, "transpose_b": transposed}
            outputs += b.node("nn.batch_matmul", (b.input(x), b.input(y)), chosen)
        if "matmul" in v.offloaded:
            y = TensorType((4, columns), "float32")
            outputs += b.node("matmul", (b.input(x), b.constant(y)), {})
    return b.graph(*outputs)


@structure
def bias_of_rows(b: Builder, v: Vocabulary) -> Graph:
    """A square result has a bias for its rows and one for its columns, which only the axis
    distinguishes (classes 16, 42)."""
    need(v, "nn.dense", "nn.bias_add")
    outputs = []
    for axis in (0, 1):
        y = b.simple("nn.dense", b.input(TensorType((6, 4), "float32")), units=6)
        outputs.append(b.simple("nn.bias_add", y, axis=axis))
    return b.graph(*outputs)


@numeric_structure
def bias_read_before(b: Builder, v: Vocabulary) -> Graph:
    """A computed bias is read before its layer too, so its memory may not be reused before it is
    added (classes 18, 38)."""
    v.of(("nn.dense", "nn.conv2d"))
    need(v, "add")
    outputs: list[str] = []
    for name, x, bias, chosen in (
        ("nn.dense", (3, 8), (8,), {"units": 8}),
        ("nn.conv2d", (1, 4, 5, 6), (4, 1, 1), {"channels": 4, "kernel_size": (2, 3)}),
    ):
        if name in v.offloaded:
            offset = b.simple(v.unary[1], b.input(TensorType(bias, "float32"), 0.5, 2.0))
            moved = b.node(v.binary, (b.input(TensorType(x, "float32")), offset), {})[0]
            layer = b.simple(name, b.simple(v.unary[0], moved), **chosen)
            outputs += b.node("add", (layer, offset), {})
    return b.graph(*outputs)


@structure
def dense_layers(b: Builder, v: Vocabulary) -> Graph:
    """Two dense layers with biases follow each other, with constants of four shapes, and once more
    with equal extents (class 26)."""
    need(v, "nn.dense")
    x = TensorType((3, 4), "float32")
    outputs = [_in_a_row(b, v, "nn.dense", x, *({"units": n} for n in units)) for units in ((5, 6), (4, 4))]
    y = b.simple("nn.dense", b.simple("nn.dense", b.input(x), units=5), units=6)
    return b.graph(*outputs, biased(b, v, y))


@structure
def conv_layers(b: Builder, v: Vocabulary) -> Graph:
    """Two convolutions follow each other, with different numbers of channels and with equal ones
    (class 26)."""
    need(v, "nn.conv2d")
    layers = [[{"kernel_size": (1, 1), "channels": n} for n in channels] for channels in ((5, 3), (4, 4))]
    return b.graph(*(_in_a_row(b, v, "nn.conv2d", _IMAGE, *row) for row in layers))


def _in_a_row(b: Builder, v: Vocabulary, name: str, x: TensorType, first: Attrs, second: Attrs) -> str:
    """Adds two layers with biases, with an operator between them if the target offloads a unary
    one."""
    y = biased(b, v, b.simple(name, b.input(x), **first))
    found = [o for o in UNARY if o in v.offloaded]
    return biased(b, v, b.simple(name, b.simple(found[0], y) if found else y, **second))
