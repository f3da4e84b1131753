"""Structures in which values are shared, returned, or pass through operators left to TVM."""

from __future__ import annotations

from itertools import product

from ...core.graph import Graph, TensorType
from ...operators.record import Attrs
from ..builder import Builder
from .vocabulary import BINARY, Vocabulary, fields, need, numeric_structure, structure

_T = TensorType((2, 3, 5), "float32")


@structure
def same_operand_twice(b: Builder, v: Vocabulary) -> Graph:
    """An operator reads the same value twice; its parameters may be deduplicated on one side only
    (class 34)."""
    y = b.simple(v.unary[0], b.input(_T))
    return b.graph(b.node(v.binary if v.binary != "divide" else "add", (y, y), {})[0])


@structure
def diamond(b: Builder, v: Vocabulary) -> Graph:
    """The two readers of a value meet again in one operator."""
    y = b.simple(v.unary[0], b.input(_T))
    return b.graph(b.node(v.binary, (b.simple(v.unary[1], y), y), {})[0])


@numeric_structure
def deeper_second(b: Builder, v: Vocabulary) -> Graph:
    """The second operand has more steps before it than the first, once from separate inputs and
    once from one (class 33). Code that orders steps by their first operand alone runs too early."""
    x = b.input(_T)
    y = x
    for op in (v.unary[0], v.unary[1], v.unary[0]):
        y = b.simple(op, y)
    early = b.node(v.binary, (x, y), {})[0]
    return b.graph(b.node(v.binary, (b.simple(v.unary[1], b.input(_T)), early), {})[0])


@numeric_structure
def read_at_several_ranks(b: Builder, v: Vocabulary) -> Graph:
    """A value is broadcast by its second reader and not by its first one (classes 33, 52)."""
    row, rows = (TensorType(shape, "float32") for shape in ((5,), (3, 5)))
    x = b.simple(v.unary[0], b.input(row, 0.5, 2.0))
    first = b.node(v.binary, (x, b.input(row, 0.5, 2.0)), {})[0]
    second = b.node(v.binary, (b.input(rows, 0.5, 2.0), x), {})[0]
    return b.graph(first, second, b.node(v.binary, (second, x), {})[0])


@structure
def returned_and_consumed(b: Builder, v: Vocabulary) -> Graph:
    """An output is also read inside its region (classes 25, 48)."""
    y = b.simple(v.unary[0], b.input(_T))
    return b.graph(y, b.simple(v.unary[1], y))


@structure
def inside_of_two_results(b: Builder, v: Vocabulary) -> Graph:
    """Two results depend on one value that is no result itself (classes 25, 28)."""
    y = b.simple(v.unary[0], b.input(_T))
    return b.graph(b.simple(v.unary[1], y), b.node(v.binary, (y, b.input(_T, 0.5, 2.0)), {})[0])


@structure
def returned_twice(b: Builder, v: Vocabulary) -> Graph:
    """The same value is two outputs, and the second buffer may stay unwritten (class 49)."""
    y = b.simple(v.unary[1], b.simple(v.unary[0], b.input(_T)))
    return b.graph(y, y)


@structure
def input_returned(b: Builder, v: Vocabulary) -> Graph:
    """An input of the graph is one of its outputs (class 49)."""
    x = b.input(_T)
    return b.graph(b.simple(v.unary[0], x), x)


@structure
def inputs_named_alike(b: Builder, v: Vocabulary) -> Graph:
    """Three inputs have names as in models, which become equal if special characters become
    underscores (class 7)."""
    a, c = b.input(_T, name="input.1"), b.input(_T, 0.5, 2.0, name="input:1")
    y = b.node(v.binary, (a, c), {})[0]
    return b.graph(b.node(v.binary, (y, b.input(_T, 0.5, 2.0, name="input_1")), {})[0])


@structure
def outputs_reversed(b: Builder, v: Vocabulary) -> Graph:
    """Outputs have different shapes, and the value computed last is returned first (class 33)."""
    x, z = b.input(_T), b.input(TensorType((5,), "float32"))
    a = b.simple(v.unary[0], z)
    c = b.simple(v.unary[1], x)
    d = b.node(v.binary, (c, a), {})[0]
    return b.graph(d, c, a)


@structure
def outputs_growing(b: Builder, v: Vocabulary) -> Graph:
    """Outputs have different shapes, and the size of the first is not large enough for all (class
    25)."""
    a = b.simple(v.unary[0], b.input(TensorType((5,), "float32")))
    c = b.node(v.binary, (b.input(_T), a), {})[0]
    return b.graph(a, c)


@structure
def inputs_reversed(b: Builder, v: Vocabulary) -> Graph:
    """Three inputs are read from the last to the first by an operator that does not commute (class
    33)."""
    x, y, z = b.input(_T), b.input(_T), b.input(_T, 0.5, 2.0)
    return b.graph(b.node(v.binary, (z, b.node(v.binary, (y, x), {})[0]), {})[0])


@structure
def host_between(b: Builder, v: Vocabulary) -> Graph:
    """An operator left to TVM stands between two that the target offloads."""
    return b.graph(b.simple(v.unary[1], b.simple(v.host, b.simple(v.unary[0], b.input(_T)))))


@numeric_structure
def regions_of_several_sizes(b: Builder, v: Vocabulary) -> Graph:
    """One of several regions needs more memory than the others, whichever comes first (classes 7,
    18)."""
    outputs = []
    for shape in ((2, 3), (80, 20, 2, 3), (2, 3)):
        y = b.simple(v.unary[0], b.input(TensorType((2, 3), "float32")))
        y = b.node(v.binary, (y, b.input(TensorType(shape, "float32"), 0.5, 2.0)), {})[0]
        outputs.append(b.simple(v.host, b.simple(v.unary[1], y)))
    return b.graph(*outputs)


@structure
def skip_around_host(b: Builder, v: Vocabulary) -> Graph:
    """A value is read by an operator left to TVM and by the reader of that operator (class 19). A
    merged region would depend on itself."""
    a = b.simple(v.unary[0], b.input(_T))
    return b.graph(b.node(v.binary, (a, b.simple(v.host, a)), {})[0])


@structure
def two_branches_around_host(b: Builder, v: Vocabulary) -> Graph:
    """A value is read by an operator left to TVM and by one that the target offloads, and their
    branches meet again (class 19)."""
    a = b.simple(v.unary[0], b.input(_T))
    h = b.simple(v.host, a)
    c = b.simple(v.unary[1], a)
    return b.graph(b.node(v.binary, (b.simple(v.unary[0], h), c), {})[0], c)


@structure
def alternating(b: Builder, v: Vocabulary) -> Graph:
    """Operators that the target offloads alternate with operators left to TVM (class 57)."""
    y = b.input(_T)
    for _ in range(3):
        y = b.simple(v.host, b.simple(v.unary[0], y))
    return b.graph(b.simple(v.unary[1], y))


@structure
def equal_but_for_attributes(b: Builder, v: Vocabulary) -> Graph:
    """The same operator occurs twice on the same shape, with other attributes (class 44)."""
    need(v, "transpose")
    y = b.simple("transpose", b.input(TensorType((3, 3, 3), "float32")), axes=(1, 2, 0))
    return b.graph(b.simple("transpose", b.simple(v.unary[0], y), axes=(0, 2, 1)))


@structure
def transposes_in_a_row(b: Builder, v: Vocabulary) -> Graph:
    """Pairs of transposes do not commute, and pairs of equal transposes do not cancel (class 10).
    They may be merged, unless another node reads the value between them."""
    need(v, "transpose")
    axes, outputs = ((1, 2, 0), (0, 2, 1), (1, 0, 2)), list[str]()
    y = b.simple("transpose", b.input(TensorType((3, 3, 3), "float32")), axes=axes[0])
    outputs += (b.simple(v.unary[0], b.simple("transpose", y, axes=second)) for second in axes[:2])
    for first, second in product(axes, axes):
        y = b.simple("transpose", b.input(TensorType((3, 3, 3), "float32")), axes=first)
        outputs.append(b.simple("transpose", y, axes=second))
    return b.graph(*outputs)


@structure
def slice_out_of_order(b: Builder, v: Vocabulary) -> Graph:
    """The axes of a slice are not in order, which its shape does not show (class 43)."""
    need(v, "strided_slice")
    x = b.input(TensorType((3, 3, 3), "float32"))
    return b.graph(
        b.simple("strided_slice", x, axes=(1, 0), strides=(1, 1), begin=(0, 1), end=(2, 3))
    )


@structure
def slice_of_every_second(b: Builder, v: Vocabulary) -> Graph:
    """A slice with a step of two ends at the last element of an input, behind which no memory may
    be read (class 18)."""
    need(v, "strided_slice")
    x = b.input(TensorType((4, 16), "float32"))
    return b.graph(b.simple("strided_slice", x, axes=(1,), strides=(2,), begin=(1,), end=(16,)))


@structure
def slices_in_a_row(b: Builder, v: Vocabulary) -> Graph:
    """The indices of a slice count in the steps of the slice before it (classes 10, 43)."""
    need(v, "strided_slice")
    x = b.input(TensorType((2, 11), "float32"))
    y = b.simple("strided_slice", x, axes=(1,), strides=(2,), begin=(1,), end=(11,))
    return b.graph(b.simple("strided_slice", y, axes=(1,), strides=(1,), begin=(1,), end=(4,)))


#: Operators, each with two sets of attributes that give results of one shape.
_TWICE: dict[str, tuple[Attrs, Attrs]] = {
    "transpose": ({"axes": (1, 2, 0)}, {"axes": (0, 2, 1)}),
    "nn.softmax": ({"axis": 0}, {"axis": -1}),
    "clip": ({"a_min": -0.5, "a_max": 1.5}, {"a_min": -1.5, "a_max": 0.75}),
    "nn.leaky_relu": ({"alpha": 0.125}, {"alpha": 0.5}),
}


@structure
def same_operand_other_attributes(b: Builder, v: Vocabulary) -> Graph:
    """The same operator occurs twice on one tensor, with different attributes (classes 10, 44)."""
    name = v.of(_TWICE)[0]
    one, other = _TWICE[name]
    x = b.input(TensorType((3, 3, 3), "float32"))
    return b.graph(b.node(v.binary, (b.simple(name, x, **one), b.simple(name, x, **other)), {})[0])


@structure
def float64_chain(b: Builder, v: Vocabulary) -> Graph:
    """Each element of the intermediate values has eight bytes (class 18)."""
    type_ = TensorType((2, 3, 5), "float64")
    y = b.simple(v.unary[0], b.input(type_))
    z = b.node(v.binary, (y, b.input(type_, 0.5, 2.0)), {})[0]
    return b.graph(b.node(v.binary, (b.simple(v.unary[1], z), y), {})[0])


@structure
def dead_code(b: Builder, v: Vocabulary) -> Graph:
    """The results of some operators are never read (class 55)."""
    x = b.input(_T)
    y = b.simple(v.unary[0], x)
    b.simple(v.unary[1], y)
    b.node(v.binary, (x, x), {})
    return b.graph(y)


@structure
def dead_code_at_host(b: Builder, v: Vocabulary) -> Graph:
    """The only reader of a value is an operator left to TVM, whose result is never read (class
    55)."""
    x = b.input(_T)
    b.simple(v.host, b.simple(v.unary[1], x))
    return b.graph(b.simple(v.unary[0], x))


@structure
def unused_input(b: Builder, v: Vocabulary) -> Graph:
    """An input that is never read comes before one that is (class 55)."""
    b.input(TensorType((7,), "float32"))
    return b.graph(b.simple(v.unary[0], b.input(_T)))


@structure
def broadcast_both(b: Builder, v: Vocabulary) -> Graph:
    """Both operands are broadcast, and the result is read with a third shape (classes 16, 23)."""
    a = b.input(TensorType((3, 1), "float32"))
    c = b.input(TensorType((1, 4), "float32"), 0.5, 2.0)
    y = b.node(v.binary, (a, c), {})[0]
    return b.graph(b.node(v.binary, (y, b.input(TensorType((2, 1, 1), "float32"), 0.5, 2.0)), {})[0])


#: Operators that work along one axis, with attributes for which its length stays one.
_ALONG: dict[str, Attrs] = {
    "nn.softmax": {"axis": 1},
    "nn.bias_add": {"axis": 1},
    "mean": {"axis": (1,), "keepdims": True},
    "max": {"axis": (1,), "keepdims": True},
}


@numeric_structure
def along_an_axis_of_one(b: Builder, v: Vocabulary) -> Graph:
    """A value is first broadcast along an axis of one element, then read along it (classes 23,
    44)."""
    outputs: list[str] = []
    for name in v.of(_ALONG):
        x = b.input(TensorType((2, 1, 5), "float32"), 0.5, 2.0)
        y = b.node(v.binary, (x, b.input(_T, 0.5, 2.0)), {})[0]
        outputs += b.node(v.binary, (y, b.simple(name, x, **_ALONG[name])), {})
    return b.graph(*outputs)


@structure
def large(b: Builder, v: Vocabulary) -> Graph:
    """Some 70,000 elements need buffers that do not fit where small ones do (class 18)."""
    type_ = TensorType((3, 157, 149), "float32")
    y = b.simple(v.unary[0], b.input(type_))
    if not v.offloaded.intersection(BINARY):
        return b.graph(b.simple(v.unary[1], y))
    return b.graph(b.node(v.binary, (y, b.input(type_, 0.5, 2.0)), {})[0])


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


@structure
def forms_that_take_a_while(b: Builder, v: Vocabulary) -> Graph:
    """Operators run so long that the threads which run them overlap (class 45). Data gathered for a
    group, window, row or axis, or packed from a second operand that is not a constant, may be where
    another thread puts its own."""
    names, outputs = v.of(list(dict.fromkeys(name for name, *_ in _FORMS))), list[str]()
    for name, form, shapes in _FORMS:
        if name in names:
            outputs.append(b.simple(name, *(b.input(TensorType(s, "float32")) for s in shapes), **form))
    return b.graph(*outputs)


@structure
def split_and_join(b: Builder, v: Vocabulary) -> Graph:
    """Results of a split are read out of order and joined (class 2)."""
    need(v, "split", "concatenate")
    parts = fields(b, b.input(TensorType((2, 6, 5), "float32")), 3, 1)
    return b.graph(b.node("concatenate", (b.simple(v.unary[0], parts[2]), parts[0]), {"axis": 1})[0])


@structure
def joined_and_split(b: Builder, v: Vocabulary) -> Graph:
    """Inputs are concatenated in order, and so are all results of a split (class 2)."""
    need(v, "concatenate")
    x, y = b.input(TensorType((2, 4, 5), "float32")), b.input(TensorType((2, 2, 5), "float32"), 0.5, 2.0)
    (joined,) = b.node("concatenate", (x, y), {"axis": 1})
    parts = fields(b, joined, 3, 1) if "split" in v.offloaded else (joined, x, joined)
    return b.graph(b.node("concatenate", parts, {"axis": 1 if joined in parts else 0})[0])


@structure
def pieces_of_two(b: Builder, v: Vocabulary) -> Graph:
    """Only the pieces of two computed values of the same size are read, those of the first while
    the second is computed (class 18)."""
    need(v, "split")
    first, second = (
        fields(b, b.simple(op, b.input(TensorType((4, 5), "float32"), 0.5, 2.0)), 2, 0) for op in v.unary
    )
    return b.graph(*(b.node(v.binary, pair, {})[0] for pair in zip(first, second)))


@structure
def split_returned(b: Builder, v: Vocabulary) -> Graph:
    """All fields of a tuple are returned, the last one first (classes 2, 33)."""
    need(v, "split")
    parts = fields(b, b.input(TensorType((2, 6, 5), "float32")), 3, 1)
    return b.graph(*reversed(parts))


@structure
def split_unevenly(b: Builder, v: Vocabulary) -> Graph:
    """The target reads pieces of different sizes, of which the first is the shortest (class 18)."""
    need(v, "split")
    outputs: list[str] = []
    for axis, at in ((0, (2, 9)), (1, (3,))):
        x = b.input(TensorType((12, 13), "float32"))
        parts = b.node("split", (x,), {"indices_or_sections": at, "axis": axis})
        outputs += (b.simple(v.unary[n % 2], part) for n, part in enumerate(parts))
    return b.graph(*outputs)


@structure
def concatenate_itself(b: Builder, v: Vocabulary) -> Graph:
    """A tuple holds one value three times (class 34)."""
    need(v, "concatenate")
    y = b.simple(v.unary[0], b.input(_T))
    return b.graph(b.node("concatenate", (y, y, y), {"axis": 1})[0])
