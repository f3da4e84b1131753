"""Structures of operators in a row, which compilers merge, drop, or move past each other.

Each row breaks a condition of such a rewrite. No shape shows which axis is meant, since extents are
equal wherever that is possible (classes 10, 16, 23, 38, 42, 43, 51, 52).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from typing import Any

from .expressions import Field, Row, Value, add_table, call, constant, first, node, row, two, x
from .vocabulary import REDUCTIONS

_CUBE = (4, 4, 4)
_PERMUTED = ((1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2))
_CUT: dict[str, Any] = {"axes": (1,)}
#: Operators whose forms follow each other, each before each.
_FORMS: dict[str, tuple[tuple[int, ...], tuple[dict[str, Any], ...]]] = {
    "transpose": (_CUBE, tuple({"axes": axes} for axes in _PERMUTED)),
    "strided_slice": (
        (2, 11),
        (
            {**_CUT, "strides": (2,), "begin": (1,), "end": (11,)},
            {**_CUT, "strides": (1,), "begin": (1,), "end": (4,)},
        ),
    ),
    "nn.pad": (
        (3, 4),
        tuple(
            {"pad_mode": "constant", "pad_value": value, "pad_width": width}
            for value, width in ((0.0, ((1, 0), (0, 2))), (1.5, ((0, 2), (1, 1))), (-1.0, ((0, 1), (2, 0))))
        ),
    ),
    "clip": (
        (3, 5),
        tuple(
            {"a_min": low, "a_max": high}
            for low, high in ((-1.0, 1.0), (0.0, 2.0), (1.25, 1.5))
        ),
    ),
    "nn.leaky_relu": ((3, 5), ({"alpha": 0.125}, {"alpha": 0.5})),
    "cumsum": (_CUBE, ({"axis": 0}, {"axis": 1})),
    "reverse": (_CUBE, ({"axis": 0}, {"axis": 1})),
    "nn.softmax": (_CUBE, ({"axis": 0}, {"axis": 2})),
    "reshape": ((4, 6), ({"newshape": (2, 12)}, {"newshape": (3, 8)})),
}


def _in_a_row() -> Iterator[Row]:
    """An operator follows itself in another form."""
    for name, (shape, forms) in _FORMS.items():
        for one, other in product(forms, forms):
            yield row(call(name, call(name, x(*shape, low=-2.0, high=2.0), **one), **other))
    # Numbers that do not fit the dtype must be lost.
    for dtype in ("int32", "int8", "bool", "float16", "float64"):
        yield row(node("cast", node("cast", x(3, 5), dtype=dtype), dtype="float32"))
    for name in REDUCTIONS[:3]:
        for axis, behind in combinations_with_replacement(range(3), 2):
            # An axis has another number behind the first reduction, or another length.
            once = call(name, x(2, 3, 4, low=0.5, high=2.0), axis=(axis,), keepdims=axis == behind)
            yield row(call(name, once, axis=(behind - (axis < behind),)))


#: Operators that move elements, with a result of the shape 4x4x4.
_MOVED: dict[str, tuple[tuple[int, ...], tuple[dict[str, Any], ...]]] = {
    "transpose": (_CUBE, tuple({"axes": axes} for axes in _PERMUTED[:2])),
    "reshape": ((2, 8, 4), ({"newshape": _CUBE},)),
    "squeeze": ((4, 1, 4, 4), ({"axis": (1,)},)),
    "reverse": (_CUBE, ({"axis": 1},)),
}
#: Operators that work along one axis, with two axes that no shape tells apart.
_ALONG: dict[str, tuple[dict[str, Any], ...]] = {
    **{name: ({"axis": (0,)}, {"axis": (1,), "keepdims": True}, {"axis": (1, 2)}) for name in REDUCTIONS[:3]},
    "nn.softmax": ({"axis": 0}, {"axis": 1}),
    "nn.log_softmax": ({"axis": 0},),
    "nn.bias_add": ({"axis": 0}, {"axis": 1}),
    "cumsum": ({"axis": 0},),
    "reverse": ({"axis": 0},),
    "transpose": ({"axes": (1, 0, 2)},),
    "reshape": ({"newshape": (4, 16)},),
    "expand_dims": ({"axis": 1, "num_newaxis": 1},),
    "strided_slice": ({"axes": (1, 0), "strides": (1, 1), "begin": (0, 1), "end": (2, 3)},),
}


def _moved_and_read() -> Iterator[Row]:
    """An operator runs along an axis that was another one of the same length before its operand was
    moved."""
    for (mover, (shape, forms)), (reader, along) in product(_MOVED.items(), _ALONG.items()):
        # Behind a transpose there are all forms, and behind the others one.
        for one, other in product(forms, along if mover == "transpose" else along[:1]):
            yield row(call(reader, call(mover, x(*shape, low=0.5, high=2.0), **one), **other))
    for reader, along in _ALONG.items():
        for given in along:
            yield row(call(reader, x(*_CUBE, low=0.5, high=2.0), **given))
        # The axis along which two values are joined, and one that they were cut from.
        joined = node("concatenate", *(x(2, 4, 4, low=0.5, high=2.0) for _ in range(2)), axis=0)
        halves = node("split", x(8, 4, 4, low=0.5, high=2.0), indices_or_sections=2, axis=0)
        yield row(call(reader, joined, **along[0]))
        yield row(call(reader, Field(halves, 1), **along[0]))


def _moved_behind() -> Iterator[Row]:
    """The axes that an operator leaves are permuted, or one of one element is broadcast."""
    for name in REDUCTIONS:
        yield row(call("transpose", call(name, x(2, 3, 4, 5), axis=(1,)), axes=(1, 2, 0)))
        kept = call(name, x(2, 3, 4, 5), axis=(2,), keepdims=True)
        yield row(call("transpose", kept, axes=(2, 3, 1, 0)))
        yield row(call("reshape", call(name, x(2, 2, 6), axis=(2,), keepdims=True), newshape=(4,)))
    for shape, axes, other in (((3, 1), (1, 0), (4, 3)), ((2, 1, 3), (1, 2, 0), (4, 3, 2))):
        permuted = call("transpose", x(*shape, low=0.5, high=2.0), axes=axes)
        beside = x(*other, low=0.5, high=2.0)
        yield row(two(permuted, beside))
        yield row(two(beside, permuted))
    for axes in ((0, 2, 1), (1, 2, 0), (2, 1, 0)):
        # Transposes of constants may be computed when code is generated; with reversed axes NumPy
        # keeps the data in place and calls them contiguous in the other order.
        permuted = call("transpose", constant(2, 3, 4), axes=axes)
        yield row(two(x(*((2, 3, 4)[axis] for axis in axes)), permuted))
    # A reshape, a transpose and a reshape together are no reshape.
    shuffled = call("transpose", call("reshape", x(2, 6, 3), newshape=(2, 2, 3, 3)), axes=(0, 2, 1, 3))
    yield row(call("reshape", shuffled, newshape=(2, 6, 3)))
    # An axis of one element is enlarged, and its operator runs along it.
    along: dict[str, dict[str, Any]] = {"nn.softmax": {"axis": 1}, "nn.bias_add": {"axis": 1}}
    along.update((name, {"axis": (1,), "keepdims": True}) for name in REDUCTIONS[:3])
    for name, given in along.items():
        value = x(2, 1, 5, low=0.5, high=2.0)
        yield row(two(two(value, x(2, 3, 5, low=0.5, high=2.0)), call(name, value, **given)))


#: Views of a value of the shape 2x3x4x1, and readers that are no views.
_VIEWS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("reshape", {"newshape": (6, 4)}), ("squeeze", {"axis": (3,)}), ("transpose", {"axes": (0, 2, 1, 3)}),
    ("expand_dims", {"axis": 1, "num_newaxis": 1}), ("nn.batch_flatten", {}),
)
_READERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("sum", {"axis": (1,)}), ("nn.softmax", {"axis": 1}), ("mean", {"axis": (2,)}), ("nn.relu", {}),
)


def _viewed_and_read() -> Iterator[Row]:
    """A value is read by a view and by another operator, and both are returned."""
    value = x(2, 3, 4, 1, low=0.5, high=2.0)
    makers: tuple[Value, ...] = (
        first(value), two(value, constant(4, 1)), call("nn.softmax", value, axis=1),
        call("transpose", x(2, 4, 3, 1), axes=(0, 2, 1, 3)), call("reshape", x(6, 4), newshape=(2, 3, 4, 1)),
        call("max", x(2, 3, 4, 5), axis=(3,), keepdims=True),
        node("concatenate", x(2, 1, 4, 1), x(2, 2, 4, 1), axis=1),
        call("nn.conv2d", x(2, 2, 4, 1), channels=3, kernel_size=(1, 1)),
    )
    for at, made in enumerate(makers):
        # Each view and each reader occurs behind several makers.
        for turn in (0, 2):
            (view, given), (reader, along) = _VIEWS[(at + turn) % len(_VIEWS)], _READERS[(at + turn) % 4]
            yield row(call(view, made, **given), call(reader, made, **along))


def _undone() -> Iterator[Row]:
    """An operator seems to undo the one before or to have no effect, but does so for some numbers
    only."""
    value = x(3, 5)
    yield row(call("sqrt", node("multiply", value, value)))
    for behind in ("negative", "abs", "nn.relu"):
        yield row(call(behind, call("negative", value)))
    yield row(call("log", call("exp", value)))
    yield row(call("sqrt", call("abs", value)))
    # A softmax along an axis of one element is 1 and its logarithm 0, or both are NaN.
    special = x(5, 1, data=[0.0, 2.5, "nan", "inf", "-inf"])
    yield row(call("nn.softmax", special, axis=-1))
    yield row(call("nn.log_softmax", special, axis=-1))


def register() -> None:
    """Adds the structures of this file."""
    add_table("twice_in_a_row", _in_a_row())
    add_table("moved_and_read", _moved_and_read())
    add_table("moved_behind", _moved_behind())
    add_table("viewed_and_read", _viewed_and_read())
    add_table("undone", _undone())
