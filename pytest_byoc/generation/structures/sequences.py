"""Structures of operators in a row that codegens fuse, merge or reorder.

One operator decides what the attributes of the next one mean. Only the numbers matter, so these
structures get the checks that every graph gets."""

from __future__ import annotations

from ...core.graph import Graph, TensorType
from ...operators.record import Attrs
from ..builder import Builder
from .vocabulary import BINARY, Vocabulary, fields, need, numeric_structure

REDUCTIONS = ("sum", "mean", "max", "min", "prod")
_CUBE = TensorType((2, 3, 4), "float32")


@numeric_structure
def reduced_after_transpose(b: Builder, v: Vocabulary) -> Graph:
    """A reduction leaves axes in another order than before the transpose (classes 10, 43)."""
    need(v, "transpose")
    reductions = v.of(REDUCTIONS)
    y = b.simple("transpose", b.input(_CUBE), axes=(2, 0, 1))
    return b.graph(
        b.simple(reductions[0], y, axis=(2,)), b.simple(reductions[-1], y, axis=(0,), keepdims=True)
    )


@numeric_structure
def transposed_after_reduction(b: Builder, v: Vocabulary) -> Graph:
    """A transpose permutes the axes that a reduction leaves (classes 10, 43)."""
    need(v, "transpose")
    reductions = v.of(REDUCTIONS)
    x = b.input(TensorType((2, 3, 4, 5), "float32"))
    return b.graph(
        b.simple("transpose", b.simple(reductions[0], x, axis=(1,)), axes=(1, 2, 0)),
        b.simple("transpose", b.simple(reductions[-1], x, axis=(2,), keepdims=True), axes=(2, 3, 1, 0)),
    )


@numeric_structure
def softmax_after_transpose(b: Builder, v: Vocabulary) -> Graph:
    """A softmax runs along an axis that was another one, of the same length, before the transpose
    (classes 10, 43)."""
    need(v, "transpose")
    softmax = v.of(("nn.softmax", "nn.log_softmax"))[0]
    y = b.simple("transpose", b.input(TensorType((3, 3, 3), "float32")), axes=(1, 2, 0))
    return b.graph(b.simple(softmax, y, axis=0), b.simple(softmax, y, axis=1))


@numeric_structure
def cut_after_transpose(b: Builder, v: Vocabulary) -> Graph:
    """A slice, split or concatenation runs along an axis that was another one before the transpose
    (classes 10, 43)."""
    need(v, "transpose")
    v.of(("strided_slice", "split", "concatenate"))
    y = b.simple("transpose", b.input(TensorType((4, 4, 4), "float32")), axes=(2, 0, 1))
    found = []
    if "strided_slice" in v.offloaded:
        found.append(b.simple("strided_slice", y, axes=(1,), strides=(1,), begin=(1,), end=(3,)))
    if "split" in v.offloaded:
        found.append(fields(b, y, 2, 0)[1])
    if "concatenate" in v.offloaded:
        other = b.input(TensorType((4, 4, 2), "float32"))
        found.append(b.node("concatenate", (y, other), {"axis": 2})[0])
    return b.graph(*found)


@numeric_structure
def channels_shuffled(b: Builder, v: Vocabulary) -> Graph:
    """A reshape, a transpose and a reshape together are no reshape (class 10)."""
    need(v, "reshape", "transpose")
    y = b.simple("reshape", b.input(TensorType((2, 6, 3), "float32")), newshape=(2, 2, 3, 3))
    y = b.simple("transpose", y, axes=(0, 2, 1, 3))
    return b.graph(b.simple("reshape", y, newshape=(2, 6, 3)))


@numeric_structure
def reduced_after_reshape(b: Builder, v: Vocabulary) -> Graph:
    """A reduction runs along axes that the tensor does not have before the reshape (classes 10,
    43)."""
    need(v, "reshape")
    reductions = v.of(REDUCTIONS)
    y = b.simple("reshape", b.input(TensorType((4, 6), "float32")), newshape=(2, 2, 6))
    return b.graph(
        b.simple(reductions[0], y, axis=(1,)),
        b.simple("reshape", b.simple(reductions[-1], y, axis=(2,), keepdims=True), newshape=(4,)),
    )


@numeric_structure
def softmax_by_hand(b: Builder, v: Vocabulary) -> Graph:
    """A softmax is written out: its reductions are broadcast against their operands (classes 10,
    16)."""
    need(v, "exp", "divide", "sum")
    x = b.input(TensorType((3, 5), "float32"))
    if {"max", "subtract"} <= v.offloaded:
        x = b.node("subtract", (x, b.simple("max", x, axis=(1,), keepdims=True)), {})[0]
    y = b.simple("exp", x)
    return b.graph(b.node("divide", (y, b.simple("sum", y, axis=(1,), keepdims=True)), {})[0])


@numeric_structure
def normalized_by_hand(b: Builder, v: Vocabulary) -> Graph:
    """A tensor is centred, scaled and shifted by constants as long as two of its axes (classes 10,
    16)."""
    need(v, "mean", "subtract", "multiply")
    x = b.input(TensorType((2, 4, 4), "float32"))
    y = b.node("subtract", (x, b.simple("mean", x, axis=(2,), keepdims=True)), {})[0]
    row = b.constant(TensorType((4,), "float32"), 0.5, 2.0)
    y = b.node("multiply", (y, row), {})[0]
    if "add" in v.offloaded:
        y = b.node("add", (y, b.constant(TensorType((4, 1), "float32"), -1.0, 2.0)), {})[0]
    return b.graph(y)


@numeric_structure
def attention(b: Builder, v: Vocabulary) -> Graph:
    """A softmax stands between two products, and all three lengths are the same (classes 10,
    34)."""
    need(v, "nn.batch_matmul", "nn.softmax")
    query, key, value = (b.input(TensorType((2, 4, 4), "float32")) for _ in range(3))
    y = b.simple("nn.batch_matmul", query, key, transpose_b=True)
    if "multiply" in v.offloaded:
        y = b.node("multiply", (y, b.constant(TensorType((), "float32"), 0.5, 0.5)), {})[0]
    y = b.simple("nn.softmax", y, axis=-1)
    return b.graph(b.simple("nn.batch_matmul", y, value, transpose_b=False))


@numeric_structure
def gated(b: Builder, v: Vocabulary) -> Graph:
    """A gate is multiplied by its own operand, and by another value (class 10)."""
    need(v, "multiply")
    gate = v.of(("sigmoid", "tanh", "clip", "nn.relu"))[0]
    x, other = b.input(_CUBE), b.input(_CUBE)
    y = b.simple(gate, x)
    return b.graph(b.node("multiply", (x, y), {})[0], b.node("multiply", (y, other), {})[0])


@numeric_structure
def residual_block(b: Builder, v: Vocabulary) -> Graph:
    """The input of two convolutions is added to their result, with an activation behind (classes
    10, 18)."""
    need(v, "nn.conv2d", "add")
    x = b.input(TensorType((1, 4, 5, 5), "float32"))
    y = b.simple("nn.relu", b.simple("nn.conv2d", x, channels=4, padding=(1, 1, 1, 1)))
    y = b.simple("nn.conv2d", y, channels=4, padding=(1, 1, 1, 1))
    return b.graph(b.simple("nn.relu", b.node("add", (y, x), {})[0]))


@numeric_structure
def deep_dense_bias(b: Builder, v: Vocabulary) -> Graph:
    """A product is summed in parts; fused operators must be applied to it once (classes 16, 52)."""
    need(v, "nn.dense")
    y = b.simple("nn.dense", b.input(TensorType((3, 150), "float32")), units=35)
    return b.graph(b.simple("nn.relu", b.simple("nn.bias_add", y, axis=-1)))


@numeric_structure
def deep_convolution_bias(b: Builder, v: Vocabulary) -> Graph:
    """A convolution has more channels, in and out, than one block; fused operators must be applied
    to its sums once (classes 16, 52)."""
    need(v, "nn.conv2d")
    x = b.input(TensorType((1, 70, 3, 3), "float32"))
    y = b.simple("nn.conv2d", x, channels=35, padding=(1, 1, 1, 1))
    bias = b.constant(TensorType((1, 35, 1, 1), "float32"))
    return b.graph(b.simple("nn.relu", b.node("add", (y, bias), {})[0]))


@numeric_structure
def split_and_rejoined(b: Builder, v: Vocabulary) -> Graph:
    """All results of a split, joined in another order, are not the tensor that was split (class
    10)."""
    need(v, "split", "concatenate")
    first, second = fields(b, b.input(TensorType((2, 6), "float32")), 2, 1)
    return b.graph(b.node("concatenate", (second, first), {"axis": 1})[0])


@numeric_structure
def joined_with_itself(b: Builder, v: Vocabulary) -> Graph:
    """A value is joined with itself and with another one, which has each place in turn (classes 2,
    34)."""
    need(v, "concatenate")
    x, y = b.input(TensorType((2, 3), "float32")), b.input(TensorType((2, 3), "float32"), 0.5, 2.0)
    return b.graph(*(b.node("concatenate", p, {"axis": 1})[0] for p in ((x, x, y), (x, y, x), (y, x, x))))


@numeric_structure
def sliced_from_behind_the_end(b: Builder, v: Vocabulary) -> Graph:
    """Slices go backwards from behind the last element, as exporters write them (class 43)."""
    need(v, "strided_slice")
    x = b.input(TensorType((5, 6), "float32"))
    ways = (((7, 9), (-8, -9), (-1, -2)), ((5, 2**31 - 1), (1, 2), (-2, -1)))
    outputs: list[str] = []
    for begin, end, strides in ways:
        attrs = {"axes": (0, 1), "begin": begin, "end": end, "strides": strides}
        outputs += b.node("strided_slice", (x,), attrs)
    return b.graph(*outputs)


@numeric_structure
def split_partly_read(b: Builder, v: Vocabulary) -> Graph:
    """Some results of a split are never read (classes 2, 55)."""
    need(v, "split")
    thirds = fields(b, b.simple(v.unary[0], b.input(TensorType((2, 9), "float32"))), 3, 1)
    return b.graph(b.simple(v.unary[1], thirds[1]))


@numeric_structure
def moved_beyond_16_bits(b: Builder, v: Vocabulary) -> Graph:
    """Tensors with more elements than sixteen bits count are joined, split, cut and permuted (class
    18)."""
    x, found = b.input(TensorType((306, 227), "float32")), []
    v.of(("concatenate", "split", "strided_slice", "transpose"))
    if "concatenate" in v.offloaded:
        found.append(b.node("concatenate", (x, b.input(TensorType((306, 3), "float32"))), {"axis": 1})[0])
    if "split" in v.offloaded:
        found.append(fields(b, x, 2, 0)[1])
    if "strided_slice" in v.offloaded:
        found.append(b.simple("strided_slice", x, axes=(0,), strides=(2,), begin=(250,), end=(306,)))
    if "transpose" in v.offloaded:
        found.append(b.simple("transpose", x, axes=(1, 0)))
    return b.graph(*found)


@numeric_structure
def operands_exchanged(b: Builder, v: Vocabulary) -> Graph:
    """The same operator reads the same two values in both orders, and the results differ (classes
    33, 34)."""
    x, y = b.input(_CUBE, 0.5, 2.0), b.input(_CUBE, 0.5, 2.0)
    one, other = b.node(v.binary, (x, y), {})[0], b.node(v.binary, (y, x), {})[0]
    return b.graph(b.node(v.binary, (one, b.simple(v.unary[0], other)), {})[0])


@numeric_structure
def vectors_in_a_cube(b: Builder, v: Vocabulary) -> Graph:
    """Vectors and matrices lie along each axis of a tensor with equal extents, and no shape shows
    which axis is meant (class 16)."""
    cube, outputs = TensorType((4, 4, 4), "float32"), list[str]()
    for name in v.of(BINARY):
        x = b.input(cube, 0.5, 2.0)
        for shape in ((4,), (4, 1), (4, 1, 1), (1, 4), (4, 4), (4, 1, 4)):
            outputs += b.node(name, (x, b.input(TensorType(shape, "float32"), 0.5, 2.0)), {})
        outputs += b.node(name, (x, b.constant(TensorType((4, 4), "float32"), 0.5, 2.0)), {})
    if "nn.bias_add" in v.offloaded:
        outputs += [b.simple("nn.bias_add", b.input(cube), axis=axis) for axis in (0, 1, 2)]
    return b.graph(*outputs)


#: Operators that read elements of their operand after they have written others of the result, with
#: a shape and attributes for which the result is as large as the operand.
_IMAGE = (1, 4, 5, 5)
_GATHERING: tuple[tuple[str, tuple[int, ...], Attrs], ...] = (
    ("nn.max_pool2d", _IMAGE, {"pool_size": (3, 3), "padding": (1, 1, 1, 1)}),
    ("nn.avg_pool2d", _IMAGE, {"pool_size": (3, 3), "padding": (1, 1, 1, 1)}),
    ("nn.conv2d", _IMAGE, {"channels": 4, "kernel_size": (3, 3), "padding": (1, 1, 1, 1)}),
    ("transpose", _IMAGE, {"axes": (0, 1, 3, 2)}),
    ("nn.softmax", _IMAGE, {"axis": 1}),
    ("nn.dense", (3, 5), {"units": 5}),
    ("matmul", (4, 4), {}),
    ("cumsum", (3, 5), {"axis": 0}),
    ("reverse", (3, 5), {"axis": 1}),
)


@numeric_structure
def gathered_between(b: Builder, v: Vocabulary) -> Graph:
    """An operator that cannot work in place stands between two values of its result's size,
    although nothing reads its operand any more (class 38)."""
    names, outputs = v.of([name for name, _, _ in _GATHERING]), []
    for name, shape, attrs in _GATHERING:
        if name in names:
            y = b.simple(v.unary[0], b.input(TensorType(shape, "float32")))
            outputs.append(b.simple(v.unary[1], b.simple(name, y, **attrs)))
    return b.graph(*outputs)


@numeric_structure
def inputs_of_many_kinds(b: Builder, v: Vocabulary) -> Graph:
    """Operators of several kinds read a dozen inputs of one region (class 7). The inputs' names in
    the code may clash with names that the code of an operator uses itself."""
    kinds = [(name, attrs) for name, shape, attrs in _GATHERING if shape == _IMAGE and name in v.offloaded]
    kinds += [(name, {}) for name in sorted(set(v.unary))]
    found = []
    for position in range(12):
        name, attrs = kinds[position % len(kinds)]
        found.append(b.simple(name, b.input(TensorType(_IMAGE, "float32")), **attrs))
    y = found[0]
    for other in found[1:]:
        y = b.node(v.binary, (y, other), {})[0]
    return b.graph(y)


_READERS: dict[str, Attrs] = {
    "reshape": {"newshape": (2, -1)},
    "transpose": {"axes": (0, 3, 1, 2)},
    "mean": {"axis": (1, 2)},
    "nn.softmax": {"axis": -1},
    "expand_dims": {"axis": 1, "num_newaxis": 1},
}


@numeric_structure
def behind_channels_last(b: Builder, v: Vocabulary) -> Graph:
    """Several operators read a convolution or a pooling with channels last (class 9)."""
    image, outputs = TensorType((2, 3, 4, 2), "float32"), list[str]()
    for name in v.of(("nn.conv2d", "nn.max_pool2d", "nn.avg_pool2d")):
        for reader in v.of(_READERS):
            layout = {"data_layout" if name == "nn.conv2d" else "layout": "NHWC"}
            y = b.simple(name, b.input(image), **layout)
            outputs.append(b.simple(reader, y, **_READERS[reader]))
    return b.graph(*outputs)


@numeric_structure
def behind_a_number(b: Builder, v: Vocabulary) -> Graph:
    """Several operators read a result whose first operand is a scalar, so that its shape is the
    second operand's (class 23)."""
    outputs = []
    for reader in v.of(_READERS):
        number, x = b.input(TensorType((), "float32")), b.input(TensorType((2, 3, 4, 2), "float32"), 0.5, 2.0)
        outputs.append(b.simple(reader, b.node(v.binary, (number, x), {})[0], **_READERS[reader]))
    return b.graph(*outputs)


#: Operators, each with two sets of attributes that give results of one shape.
_CUT = {"axes": (1,), "strides": (1,)}
_APART: dict[str, tuple[Attrs, Attrs]] = {
    "nn.softmax": ({"axis": 0}, {"axis": -1}),
    "strided_slice": ({"begin": (0,), "end": (3,), **_CUT}, {"begin": (1,), "end": (4,), **_CUT}),
    **{name: ({"axis": (0,)}, {"axis": (2,)}) for name in REDUCTIONS},
    "clip": ({"a_min": -0.5, "a_max": 1.5}, {"a_min": -1.5, "a_max": 0.75}),
    "nn.leaky_relu": ({"alpha": 0.125}, {"alpha": 0.5}),
}


@numeric_structure
def same_but_for_attributes(b: Builder, v: Vocabulary) -> Graph:
    """Several operators occur twice each on one tensor, with other attributes (classes 10, 44)."""
    x = b.input(TensorType((4, 4, 4), "float32"))
    found = [
        b.node(v.binary, (b.simple(name, x, **one), b.simple(name, x, **other)), {})[0]
        for name, (one, other) in _APART.items()
        if name in v.of(_APART)
    ]
    return b.graph(*found)


@numeric_structure
def returned_and_needed_twice(b: Builder, v: Vocabulary) -> Graph:
    """A value is a result, and two operators lead from it to the other result (classes 18, 25)."""
    y = b.simple(v.unary[0], b.input(_CUBE))
    return b.graph(b.simple(v.unary[0], b.simple(v.unary[1], y)), y)


@numeric_structure
def computed_twice(b: Builder, v: Vocabulary) -> Graph:
    """The same operator occurs twice on the same value; computed once, the result has two
    destinations (classes 33, 49)."""
    y = b.simple(v.unary[0], b.input(_CUBE))
    one, other = b.simple(v.unary[1], y), b.simple(v.unary[1], y)
    return b.graph(b.simple(v.unary[0], one), other)


@numeric_structure
def joined_in_a_batch_of_one(b: Builder, v: Vocabulary) -> Graph:
    """Rows of one image are joined and split, and the batch is not the only axis before theirs
    (class 43)."""
    v.of(("concatenate", "split"))
    image, outputs = TensorType((1, 3, 4), "float32"), list[str]()
    if "concatenate" in v.offloaded:
        outputs += b.node("concatenate", (b.input(image), b.input(image)), {"axis": 2})
    if "split" in v.offloaded:
        outputs += fields(b, b.input(image), 2, 2)
    return b.graph(*outputs)


@numeric_structure
def fewer_batches_on_the_right(b: Builder, v: Vocabulary) -> Graph:
    """Matrices with two batch dimensions are multiplied by matrices that have only the inner one
    (classes 14, 16)."""
    need(v, "matmul")
    x, y = (b.input(TensorType(shape, "float32")) for shape in ((2, 3, 4, 5), (3, 5, 6)))
    return b.graph(b.node("matmul", (x, y), {})[0])


@numeric_structure
def kept_from_zero(b: Builder, v: Vocabulary) -> Graph:
    """A constant is nearly zero and must not become zero, as before a logarithm or a division
    (class 53)."""
    need(v, "maximum")
    x, least = b.input(_CUBE), b.constant(TensorType((), "float32"), 1e-12, 1e-12)
    return b.graph(b.node("maximum", (x, least), {})[0])
