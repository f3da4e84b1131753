"""Structures that match the patterns of vendors, and structures that only look like matches."""

from __future__ import annotations

from ...core.graph import Graph, TensorType
from ...operators.record import Attrs
from ..builder import Builder
from .vocabulary import UNARY, Vocabulary, biased, need, numeric_structure, structure

_IMAGE = TensorType((2, 4, 6, 5), "float32")
_MATRIX = TensorType((3, 8), "float32")


def _convolution(b: Builder, x: str) -> str:
    return b.simple("nn.conv2d", x, padding=(0, 1, 2, 3), strides=(1, 2))


def _bias(b: Builder, y: str) -> str:
    channels = b.types[y].shape[1]
    return b.node("add", (y, b.constant(TensorType((1, channels, 1, 1), "float32"))), {})[0]


@structure
def conv_bias_relu(b: Builder, v: Vocabulary) -> Graph:
    """A convolution, a bias and a relu form the pattern that most targets have."""
    need(v, "nn.conv2d")
    return b.graph(b.simple("nn.relu", _bias(b, _convolution(b, b.input(_IMAGE)))))


@structure
def bias_conv_relu(b: Builder, v: Vocabulary) -> Graph:
    """The bias of the pattern is the first operand of the addition (class 10)."""
    need(v, "nn.conv2d")
    y = _convolution(b, b.input(_IMAGE))
    bias = b.constant(TensorType((1, b.types[y].shape[1], 1, 1), "float32"))
    return b.graph(b.simple("nn.relu", b.node("add", (bias, y), {})[0]))


@structure
def conv_bias_add_relu(b: Builder, v: Vocabulary) -> Graph:
    """The bias of the pattern is added by nn.bias_add."""
    need(v, "nn.conv2d")
    y = b.simple("nn.bias_add", _convolution(b, b.input(_IMAGE)), axis=1)
    return b.graph(b.simple("nn.relu", y))


def _convolution_nhwc(b: Builder) -> str:
    x = b.input(TensorType((2, 6, 5, 4), "float32"))
    return b.simple("nn.conv2d", x, data_layout="NHWC", padding=(0, 1, 2, 3))


@structure
def conv_bias_relu_nhwc(b: Builder, v: Vocabulary) -> Graph:
    """The pattern has its channels last, and the bias lies along them (classes 9, 16)."""
    need(v, "nn.conv2d")
    y = _convolution_nhwc(b)
    bias = b.constant(TensorType(b.types[y].shape[-1:], "float32"), -1.0, 2.0)
    return b.graph(b.simple("nn.relu", b.node("add", (y, bias), {})[0]))


@structure
def conv_bias_add_nhwc(b: Builder, v: Vocabulary) -> Graph:
    """The pattern has its channels last, and its bias is added by nn.bias_add (classes 9, 16)."""
    need(v, "nn.conv2d")
    y = b.simple("nn.bias_add", _convolution_nhwc(b), axis=3)
    return b.graph(b.simple("nn.relu", y))


@structure
def conv_relu(b: Builder, v: Vocabulary) -> Graph:
    """The pattern has no bias (class 10)."""
    need(v, "nn.conv2d")
    return b.graph(b.simple("nn.relu", _convolution(b, b.input(_IMAGE))))


@structure
def conv_bias_returned(b: Builder, v: Vocabulary) -> Graph:
    """Intermediate values of the pattern are outputs too; fusing the pattern loses them (class
    48)."""
    need(v, "nn.conv2d")
    y = _convolution(b, b.input(_IMAGE))
    z = _bias(b, y)
    return b.graph(b.simple("nn.relu", z), y, z)


@structure
def conv_bias_to_host(b: Builder, v: Vocabulary) -> Graph:
    """An operator left to TVM reads an intermediate value of the pattern (class 48)."""
    need(v, "nn.conv2d")
    z = _bias(b, _convolution(b, b.input(_IMAGE)))
    return b.graph(b.simple("nn.relu", z), b.simple(v.host, z))


@structure
def conv_residual(b: Builder, v: Vocabulary) -> Graph:
    """The convolution's input is added where the pattern has its bias (classes 10, 16)."""
    need(v, "nn.conv2d")
    x = b.input(_IMAGE)
    y = b.simple("nn.conv2d", x, kernel_size=(1, 1), channels=4)
    return b.graph(b.simple("nn.relu", b.node("add", (y, x), {})[0]))


@numeric_structure
def grouped_conv_bias_relu(b: Builder, v: Vocabulary) -> Graph:
    """The convolutions of the pattern have two groups, or one group for each channel (classes 16,
    41)."""
    need(v, "nn.conv2d")
    outputs = []
    for groups in (2, 4):
        y = b.simple("nn.conv2d", b.input(_IMAGE), groups=groups, channels=4)
        outputs.append(b.simple("nn.relu", _bias(b, y)))
        y = b.simple("nn.conv2d", b.input(_IMAGE), groups=groups, channels=4)
        outputs.append(b.simple("nn.relu", b.simple("nn.bias_add", y, axis=1)))
    return b.graph(*outputs)


@numeric_structure
def patch_embedding(b: Builder, v: Vocabulary) -> Graph:
    """A convolution cuts an image into pieces, as in vision transformers: its stride is as large as
    its kernel, which is unusually large (class 1)."""
    need(v, "nn.conv2d")
    image = b.input(TensorType((2, 3, 18, 12), "float32"))
    y = b.simple("nn.conv2d", image, kernel_size=(6, 6), strides=(6, 6), channels=8)
    return b.graph(b.simple("reshape", y, newshape=(2, 8, 6)))


@structure
def conv_chain(b: Builder, v: Vocabulary) -> Graph:
    """Two matches of the pattern follow each other, with weights of the same shape (class 26)."""
    need(v, "nn.conv2d")
    y = b.input(_IMAGE)
    for _ in range(2):
        y = b.simple("nn.relu", _bias(b, b.simple("nn.conv2d", y, channels=4, padding=(1, 1, 1, 1))))
    return b.graph(y)


@structure
def dense_bias_relu(b: Builder, v: Vocabulary) -> Graph:
    """A matrix product stands in place of the pattern's convolution."""
    need(v, "nn.dense")
    y = b.simple("nn.dense", b.input(_MATRIX), units=5)
    y = b.node("add", (y, b.constant(TensorType((5,), "float32"))), {})[0]
    return b.graph(b.simple("nn.relu", y))


@structure
def bias_dense_relu(b: Builder, v: Vocabulary) -> Graph:
    """The bias of the pattern is an input, and the first operand of the addition (classes 5,
    10)."""
    need(v, "nn.dense")
    y = b.simple("nn.dense", b.input(_MATRIX), units=5)
    return b.graph(b.simple("nn.relu", b.node("add", (b.input(TensorType((5,), "float32")), y), {})[0]))


@structure
def large_weight(b: Builder, v: Vocabulary) -> Graph:
    """A weight of 80 KiB makes up most of the artifact (class 50)."""
    if "nn.dense" in v.offloaded:
        y = b.simple("nn.dense", b.input(TensorType((3, 128), "float32")), units=160)
        return b.graph(b.simple(v.unary[0], y) if v.offloaded.intersection(UNARY) else y)
    type_ = TensorType((160, 128), "float32")
    y, *_ = b.node(v.binary, (b.input(type_), b.constant(type_, 0.5, 2.0)), {})
    return b.graph(b.simple(v.unary[0], y))


@structure
def dense_residual(b: Builder, v: Vocabulary) -> Graph:
    """The product's input is added where the pattern has its bias (classes 10, 16)."""
    need(v, "nn.dense", "add")
    x = b.input(_MATRIX)
    y = b.simple("nn.dense", x, units=8)
    return b.graph(b.simple("nn.relu", b.node("add", (y, x), {})[0]))


#: Products that are summed: their parameters, and the shape of their operands without the batch.
_SUMMED: tuple[tuple[str, Attrs, tuple[int, ...]], ...] = (
    ("nn.dense", {"units": 5}, (8,)),
    ("nn.conv2d", {"kernel_size": (1, 1), "channels": 4}, (3, 3, 2)),
)


@numeric_structure
def products_added(b: Builder, v: Vocabulary) -> Graph:
    """Two products are added where the pattern has one product and its bias (class 10). They have
    equally many rows, or one of them, on either side, has one row."""
    need(v, "add")
    names, outputs = v.of([name for name, _, _ in _SUMMED]), []
    for name, form, shape in (summed for summed in _SUMMED if summed[0] in names):
        for rows in ((3, 3), (1, 3), (3, 1)):
            operands = (b.input(TensorType((n, *shape), "float32")) for n in rows)
            outputs.append(b.node("add", tuple(b.simple(name, x, **form) for x in operands), {})[0])
    return b.graph(*outputs)


@structure
def dense_doubled(b: Builder, v: Vocabulary) -> Graph:
    """A product is added to itself where the pattern has its bias (classes 10, 34)."""
    need(v, "nn.dense")
    y = b.simple("nn.dense", b.input(_MATRIX), units=5)
    return b.graph(b.simple("nn.relu", b.node("add", (y, y), {})[0]))


#: Permutations that swap batches, with the matrices transposed or not, and that move heads forward.
_HEADS = ((1, 0, 3, 2), (1, 0, 2, 3), (0, 2, 1, 3), (0, 2, 3, 1))


@structure
def matmul_permuted(b: Builder, v: Vocabulary) -> Graph:
    """A permutation of an operand is no transposition of matrices, which its shape does not show
    (class 10)."""
    product = v.of(("nn.batch_matmul", "matmul"))[0]
    plain = {"transpose_b": False} if product == "nn.batch_matmul" else {}
    outputs = []
    for axes in ((1, 2, 0), (2, 1, 0), (1, 0, 2)):
        x, w = b.input(TensorType((4, 3, 4), "float32")), b.input(TensorType((4, 4, 4), "float32"))
        y = b.simple(product, x, b.simple("transpose", w, axes=axes), **plain)
        outputs.append(b.simple("nn.relu", y))
    if "matmul" in v.offloaded:
        x, w = b.input(TensorType((4, 4, 2, 4), "float32")), b.input(TensorType((4, 4, 4, 4), "float32"))
        outputs += [b.simple("matmul", x, b.simple("transpose", w, axes=a)) for a in _HEADS]
    return b.graph(*outputs)


@numeric_structure
def square_weight_transposed(b: Builder, v: Vocabulary) -> Graph:
    """A square weight, once a constant and once an input, is transposed, which its shape does not
    show (class 10)."""
    need(v, "transpose")
    product = v.of(("matmul", "nn.dense"))[0]
    square = TensorType((4, 4), "float32")
    x = b.input(TensorType((3, 4), "float32"))
    more = {"units": 4} if product == "nn.dense" else {}
    made = (b.simple("transpose", w, axes=(1, 0)) for w in (b.constant(square), b.input(square)))
    return b.graph(*(b.simple(product, x, w, **more) for w in made))


@structure
def transposed_with_itself(b: Builder, v: Vocabulary) -> Graph:
    """Both operands of a product are the same transposed square matrix (classes 10, 34)."""
    need(v, "nn.batch_matmul", "transpose")
    y = b.simple("transpose", b.input(TensorType((2, 4, 4), "float32")), axes=(0, 2, 1))
    return b.graph(b.simple("nn.relu", b.simple("nn.batch_matmul", y, y, transpose_b=False)))


@structure
def dense_bias_add_tanh(b: Builder, v: Vocabulary) -> Graph:
    """The pattern has a matrix product, nn.bias_add and another activation."""
    need(v, "nn.dense")
    y = b.simple("nn.bias_add", b.simple("nn.dense", b.input(_MATRIX), units=5), axis=-1)
    return b.graph(b.simple("tanh", y))


@structure
def dense_clip(b: Builder, v: Vocabulary) -> Graph:
    """The activation of the pattern is a clip with unusual bounds (class 35)."""
    need(v, "nn.dense")
    y = b.simple("nn.dense", b.input(_MATRIX), units=5)
    return b.graph(b.simple("clip", y, a_min=-1.3, a_max=1.1))


@numeric_structure
def deep_layers_activated(b: Builder, v: Vocabulary) -> Graph:
    """Sums have more terms than a tile, once a multiple of its size and once not (classes 10, 35).
    Fused operators must be applied once, behind the last tile."""
    layers = v.of(("nn.dense", "nn.conv2d"))
    activation, outputs = v.of(UNARY)[0], []
    for depth in (32, 67):
        for name in layers:
            if name == "nn.dense":
                y = b.simple(name, b.input(TensorType((3, depth), "float32")), units=5)
            else:
                x = b.input(TensorType((1, depth, 4, 3), "float32"))
                y = b.simple(name, x, channels=5, kernel_size=(1, 1))
            outputs.append(b.simple(activation, biased(b, v, y)))
    return b.graph(*outputs)
