"""Structures that are close to structures which compilers simplify.

They have constants that change nothing but the shape, bounds that exclude each other, weights of
zeros, axes of equal length, or operators that seem to undo the one before."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, product

from ...core.graph import Graph, TensorType
from ...operators.record import Attrs
from ..builder import Builder
from .sequences import REDUCTIONS
from .vocabulary import Unavailable, Vocabulary, biased, need, numeric_structure

_ROWS = TensorType((3, 5), "float32")
#: By operator, the constant that changes no value as its second operand; for maximum it makes a
#: relu.
_NEUTRAL = {
    "add": 0.0, "subtract": 0.0, "multiply": 1.0, "divide": 1.0, "power": 1.0, "maximum": 0.0, "minimum": 0.0,
}
#: Shapes of a value and of a constant that enlarges it along an axis or by a further one.
_GROWING = (((3, 1), (1, 4)), ((4,), (3, 4)), ((3, 4), (1,)))
#: Two operators of which the second seems to undo the first, or to have no effect after it.
_UNDONE = (
    ("negative", "negative"), ("negative", "abs"), ("negative", "nn.relu"), ("exp", "log"), ("abs", "sqrt"),
)


@numeric_structure
def neutral_constants(b: Builder, v: Vocabulary) -> Graph:
    """Sums with zeros, products with ones and the like change nothing but the shape (classes 16,
    23)."""
    outputs: list[str] = []
    for name in v.of(_NEUTRAL):
        value = _NEUTRAL[name]
        for shape, other in _GROWING:
            x = b.input(TensorType(shape, "float32"), *((0.5, 2.0) if name == "power" else ()))
            outputs += b.node(name, (x, b.constant(TensorType(other, "float32"), value, value)), {})
    return b.graph(*outputs)


@numeric_structure
def nearly_neutral_constants(b: Builder, v: Vocabulary) -> Graph:
    """A comparison with a tolerance mistakes constants for neutral (classes 5, 53). They are 1 plus
    a little, which changes the last digits, and a tiny number, which is added to other tiny
    numbers."""
    outputs: list[str] = []
    for name, shape in product(v.of(_NEUTRAL), (_ROWS.shape, ())):
        number, low, high = (1.0 + 4e-6, 0.5, 2.0) if _NEUTRAL[name] else (5e-9, -1e-7, 1e-7)
        constant = b.constant(TensorType(shape, "float32"), number, number)
        outputs += b.node(name, (b.input(_ROWS, low, high), constant), {})
    return b.graph(*outputs)


@numeric_structure
def zeros_that_decide(b: Builder, v: Vocabulary) -> Graph:
    """Products with zero and quotients of zero are zero only if the other operand is finite, and in
    quotients not zero (classes 10, 53)."""
    outputs: list[str] = []
    row = TensorType((7,), "float32")
    for name, shape in product(v.of(("multiply", "divide")), ((7,), ())):
        x = b.input(row, data=["inf", "-inf", "nan", 0.0, -0.0, 1.5, -2.0])
        zero = b.constant(TensorType(shape, "float32"), 0.0, 0.0)
        # If a target does not offload a scalar first operand, TVM itself makes the product zero.
        outputs += b.node(name, (zero, x), {}) if shape else ()
        outputs += b.node(name, (x, zero), {}) if name == "multiply" else ()
    return b.graph(*outputs)


@numeric_structure
def integer_factors(b: Builder, v: Vocabulary) -> Graph:
    """Products with integers could become shifts or negations, and so could divisions of negative
    numbers by such integers (classes 10, 31)."""
    outputs: list[str] = []
    one = TensorType((), "int32")
    for name in v.of(("multiply", "divide", "floor_divide")):
        x = b.input(TensorType((3, 5), "int32"), -20, 20)
        for factor in (0, 1, -1, 2, -4, 3) if name == "multiply" else (1, -1, 2, -4, 3):
            outputs += b.node(name, (x, b.constant(one, data=[factor])), {})
    return b.graph(*outputs)


@numeric_structure
def softmax_of_one(b: Builder, v: Vocabulary) -> Graph:
    """A softmax along an axis of one element is 1 and its logarithm 0, or both are NaN (classes 42,
    51)."""
    x = b.input(TensorType((5, 1), "float32"), data=[0.0, 2.5, "nan", "inf", "-inf"])
    return b.graph(*(b.simple(name, x, axis=-1) for name in v.of(("nn.softmax", "nn.log_softmax"))))


@numeric_structure
def clips_in_a_row(b: Builder, v: Vocabulary) -> Graph:
    """The bounds of two clips overlap, or exclude each other, where the last ones hold (class
    10)."""
    need(v, "clip")
    outputs = []
    for first, last in (((-1.0, 1.0), (0.0, 2.0)), ((1.0, 1.5), (-0.5, 0.5)), ((-1.5, -1.0), (-0.5, 0.5))):
        y = b.simple("clip", b.input(TensorType((3, 5), "float32")), a_min=first[0], a_max=first[1])
        outputs.append(b.simple("clip", y, a_min=last[0], a_max=last[1]))
    return b.graph(*outputs)


@numeric_structure
def pruned_weights(b: Builder, v: Vocabulary) -> Graph:
    """Weights are zero as a whole, in some rows, or in some columns, and the bias must be added all
    the same (classes 10, 25)."""
    layers: dict[str, tuple[tuple[int, ...], tuple[int, ...], Attrs]] = {
        "nn.dense": ((3, 4), (5, 4), {"units": 5}),
        "nn.conv2d": ((1, 4, 5, 5), (5, 4, 1, 1), {"channels": 5, "kernel_size": (1, 1)}),
    }
    outputs = []
    for name in v.of(layers):
        shape, weights, chosen = layers[name]
        # The weights are zero everywhere, in every third row, or in every third column.
        for kept in (lambda row, column: 0, lambda row, column: row % 3, lambda row, column: column % 3):
            places = product(range(5), range(4))
            values = [1.25 - 0.5 * at[0] + at[1] if kept(*at) else 0.0 for at in places]
            weight = b.constant(TensorType(weights, "float32"), data=values)
            y = b.simple(name, b.input(TensorType(shape, "float32")), weight, **chosen)
            outputs.append(biased(b, v, y))
    return b.graph(*outputs)


@numeric_structure
def reduced_along_permuted(b: Builder, v: Vocabulary) -> Graph:
    """A tensor with equal extents is reduced behind a permutation that is not its own inverse, and
    no shape shows which axes are meant (classes 10, 43)."""
    need(v, "transpose")
    outputs: list[str] = []
    for name in v.of(REDUCTIONS):
        y = b.simple("transpose", b.input(TensorType((3, 3, 3, 3), "float32"), 0.5, 2.0), axes=(0, 2, 3, 1))
        axes = [(axis,) for axis in range(4)] + list(combinations(range(1, 4), 2))
        outputs += (b.simple(name, y, axis=axis) for axis in axes)
    return b.graph(*outputs)


@numeric_structure
def reductions_in_a_row(b: Builder, v: Vocabulary) -> Graph:
    """After the first of two reductions an axis has another number, or only another length (classes
    10, 52). A compiler that merges the two has to find the axis again."""
    outputs: list[str] = []
    for name in v.of(REDUCTIONS)[:3]:
        x = b.input(TensorType((2, 3, 4), "float32"), 0.5, 2.0)
        for first, second in combinations_with_replacement(range(3), 2):
            once = b.simple(name, x, axis=(first,), keepdims=first == second)
            outputs.append(b.simple(name, once, axis=(second - (first < second),)))
    return b.graph(*outputs)


@numeric_structure
def weights_read_both_ways(b: Builder, v: Vocabulary) -> Graph:
    """Two products read the same square weight, which is transposed in one of them (classes 10,
    26)."""
    need(v, "nn.batch_matmul")
    type_, outputs = TensorType((2, 4, 4), "float32"), []
    for w in (b.input(type_), b.constant(type_)):
        y = b.input(type_)
        for transposed in (True, False):
            y = b.simple("nn.batch_matmul", y, w, transpose_b=transposed)
        outputs.append(y)
    return b.graph(*outputs)


@numeric_structure
def summed_products(b: Builder, v: Vocabulary) -> Graph:
    """Elementwise products are summed: dot products, as a whole or along an axis, and products of a
    column and a row, which are broadcast and have equally many elements (classes 10, 16)."""
    need(v, "multiply", "sum")
    outputs = []
    square, column = ((4, 4), (4, 4)), ((3, 1), (1, 3))
    for shapes, axis in ((square, (0, 1)), (square, (0,)), (square, (1,)), (column, (0, 1))):
        pair = tuple(b.input(TensorType(shape, "float32")) for shape in shapes)
        outputs.append(b.simple("sum", b.node("multiply", pair, {})[0], axis=axis))
    return b.graph(*outputs)


@numeric_structure
def permuted_and_repeated(b: Builder, v: Vocabulary) -> Graph:
    """An axis of one element is permuted, and then broadcast (classes 16, 42)."""
    need(v, "transpose")
    outputs: list[str] = []
    for shape, axes, other in (((3, 1), (1, 0), (4, 3)), ((2, 1, 3), (1, 2, 0), (4, 3, 2))):
        for first in (True, False):
            y = b.simple("transpose", b.input(TensorType(shape, "float32"), 0.5, 2.0), axes=axes)
            pair = y, b.input(TensorType(other, "float32"), 0.5, 2.0)
            outputs += b.node(v.binary, pair if first else pair[::-1], {})
    return b.graph(*outputs)


@numeric_structure
def reduced_against_itself(b: Builder, v: Vocabulary) -> Graph:
    """Operations look like a normalisation along an axis, beside true ones (classes 10, 16).
    Without keepdims, rows are combined with the values of columns, which a square does not show."""
    outputs: list[str] = []
    for reduction, operator in product(v.of(REDUCTIONS)[:3], v.of(("divide", "subtract", "multiply"))[:2]):
        x = b.input(TensorType((4, 4), "float32"), 0.5, 2.0)
        for axis, kept in ((0, True), (1, False)):
            y = b.simple(reduction, x, axis=(axis,), keepdims=kept)
            outputs.append(b.node(operator, (x, y), {})[0])
    return b.graph(*outputs)


@numeric_structure
def undone(b: Builder, v: Vocabulary) -> Graph:
    """An operator seems to undo the one before or to have no effect, but does so for some numbers
    only, as the root of a square (class 10)."""
    x, outputs = b.input(TensorType((3, 5), "float32")), list[str]()
    if "sqrt" in v.offloaded and "multiply" in v.offloaded:
        outputs.append(b.simple("sqrt", *b.node("multiply", (x, x), {})))
    for first, second in _UNDONE:
        if first in v.offloaded and second in v.offloaded:
            outputs.append(b.simple(second, b.simple(first, x)))
    if not outputs:
        raise Unavailable("the target offloads no two operators that seem to undo each other")
    return b.graph(*outputs)


@numeric_structure
def cut_from_joined(b: Builder, v: Vocabulary) -> Graph:
    """Slices of a concatenation lie within one of its parts, which differ in length, or across two
    (classes 10, 43)."""
    need(v, "concatenate")
    v.of(("strided_slice", "split"))
    outputs: list[str] = []

    def joined(axis: int) -> str:
        types = (TensorType((n, 3) if axis == 0 else (3, n), "float32") for n in (1, 2, 3))
        return b.node("concatenate", [b.input(t) for t in types], {"axis": axis})[0]

    for axis in (0, 1):
        if "strided_slice" in v.offloaded:
            for begin, end in ((0, 1), (1, 3), (3, 6), (3, 5), (2, 4)):
                cut: Attrs = {"axes": (axis,), "strides": (1,), "begin": (begin,), "end": (end,)}
                outputs.append(b.simple("strided_slice", joined(axis), **cut))
        for at in ((1, 3), (2, 3)) if "split" in v.offloaded else ():
            outputs += b.node("split", (joined(axis),), {"indices_or_sections": at, "axis": axis})
    return b.graph(*outputs)


@numeric_structure
def shifted_before(b: Builder, v: Vocabulary) -> Graph:
    """Adding a value along a softmax's own axis does not change it, but adding one along another
    axis does (class 10)."""
    outputs: list[str] = []
    for name, axis in product(v.of(("nn.softmax", "nn.log_softmax")), (0, 1)):
        need(v, "add")
        for shape, make in product(((), (2, 1), (1, 3), (2, 3)), (b.constant, b.input)):
            x = b.input(TensorType((2, 3), "float32"))
            y = b.node("add", (x, make(TensorType(shape, "float32"), 0.5, 2.0)), {})[0]
            outputs.append(b.simple(name, y, axis=axis))
    return b.graph(*outputs)


@numeric_structure
def pads_in_a_row(b: Builder, v: Vocabulary) -> Graph:
    """Two paddings may be merged only if their values agree (class 10)."""
    need(v, "nn.pad")
    outputs = []
    for first, second in ((0.0, 0.0), (0.0, 1.5), (1.5, 0.0), (-1.0, 2.0)):
        y = b.input(TensorType((3, 4), "float32"), 0.5, 2.0)
        for value, width in ((first, ((1, 0), (0, 2))), (second, ((0, 2), (1, 1)))):
            y = b.simple("nn.pad", y, pad_mode="constant", pad_value=value, pad_width=width)
        outputs.append(y)
    return b.graph(*outputs)


@numeric_structure
def casts_in_a_row(b: Builder, v: Vocabulary) -> Graph:
    """Values are cast to a dtype and back, and numbers that do not fit the dtype must be lost
    (classes 10, 51)."""
    need(v, "cast")
    outputs: list[str] = []
    for there in ("int32", "int8", "bool", "float16", "float64"):
        x = b.input(TensorType((3, 5), "float32"))
        outputs += b.node("cast", b.node("cast", (x,), {"dtype": there}), {"dtype": "float32"})
    return b.graph(*outputs)


@numeric_structure
def begun_alike(b: Builder, v: Vocabulary) -> Graph:
    """Parts of one tensor begin at the same element and end at different ones, and others hold its
    elements in other shapes: they agree in some properties only (classes 33, 44)."""
    v.of(("strided_slice", "split", "reshape"))
    x, outputs = b.simple(v.unary[0], b.input(TensorType((4, 6), "float32"))), list[str]()
    if "strided_slice" in v.offloaded:
        cut: Attrs = {"axes": (1,), "strides": (1,), "begin": (1,)}
        outputs += (b.simple("strided_slice", x, **cut, end=(end,)) for end in (3, 6))
    if "split" in v.offloaded:
        for at in ((1,), (4,)):
            outputs += b.node("split", (x,), {"indices_or_sections": at, "axis": 1})
    if "reshape" in v.offloaded:
        reader = next((o for o in REDUCTIONS if o in v.offloaded), None)
        for shape in ((3, 8), (8, 3)):
            y = b.simple("reshape", x, newshape=shape)
            outputs.append(b.simple(reader, y, axis=(1,)) if reader else b.simple(v.unary[0], y))
    return b.graph(*outputs)
