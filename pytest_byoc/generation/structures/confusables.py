"""Structures of two things that agree in a property and differ otherwise.

A compiler finds a constant, a kernel or a region again by some key: a name, a shape, the bytes, the
first elements, a sum. If the key lacks what tells the two apart, one is taken for the other
(classes 7, 26, 44).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...core.graph import TensorType
from .expressions import (
    Field,
    Leaf,
    Row,
    Value,
    add_table,
    call,
    constant,
    first,
    host,
    node,
    row,
    second,
    two,
    x,
)
from .vocabulary import REDUCTIONS

_SHAPE, _SIZE = (4, 6), 24
#: NumPy prints no more than the corners of so many elements.
_LARGE = (31, 41)
_MANY = [0.25 * (i % 11) + 0.5 for i in range(31 * 41)]
_FEW = [0.25 * i - 1.0 if i % 3 else 0.5 for i in range(_SIZE)]


class _Pair(NamedTuple):
    """Two constants, the shape of the value they are combined with, and its largest magnitude."""

    one: Leaf
    other: Leaf
    shape: tuple[int, ...] = _SHAPE
    reach: float = 2.0


def _but(at: int) -> list[float]:
    return [9.0 if i == at else value for i, value in enumerate(_MANY)]


def _few(one: list[float], other: list[float], reach: float = 2.0) -> _Pair:
    return _Pair(constant(*_SHAPE, data=one), constant(*_SHAPE, data=other), reach=reach)


def _many(differing: int) -> _Pair:
    return _Pair(constant(*_LARGE, data=_MANY), constant(*_LARGE, data=_but(differing)), _LARGE)


def _near(size: float, step: float) -> _Pair:
    one, other = ([size + k * step * (1 + i % 3) for i in range(_SIZE)] for k in (1, 2))
    return _few(one, other, 0.5 * (size or step))


_ALIKE = constant(*_SHAPE)
#: Pairs of constants by the property in which they agree.
_PAIRS = {
    "type": _Pair(_ALIKE, constant(*_SHAPE)),
    "bytes": _Pair(constant(1, 4, data=_FEW[:4]), constant(4, 1, data=_FEW[:4]), (4, 4)),
    "sum": _few(_FEW, _FEW[::-1]),
    "magnitudes": _few(_FEW, [-value for value in _FEW]),
    "all but the last element": _many(len(_MANY) - 1),
    "all but the first element": _many(0),
    "printed text": _many(len(_MANY) // 2),
    "one value throughout": _few([1.0] * _SIZE, [2.0] * _SIZE),
    "everything": _Pair(_ALIKE, _ALIKE),
}
#: Pairs that a comparison with a tolerance mistakes for equal, a relative or an absolute one.
_NEAR = {"six digits": _near(1.0, 2e-6), "eight decimals": _near(0.0, 1e-9)}


def _in_one_region() -> Iterator[Row]:
    """Both constants are operands within one chain, and of two operators that share no value."""
    for one, other, shape, reach in (*_PAIRS.values(), *_NEAR.values()):
        left, right = (x(*shape, low=-reach, high=reach) for _ in range(2))
        yield row(two(two(left, one), other))
        yield row(two(left, one), two(right, other))


def _in_two_regions() -> Iterator[Row]:
    """An operator left to TVM stands between the readers of the two constants."""
    for one, other, shape, _ in _PAIRS.values():
        yield row(two(host(two(x(*shape), one)), other))


#: Layers whose result may be the operand of another one: shape, shape of the weight, parameters.
_LAYERS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "nn.dense": ((3, 4), (4, 4), {"units": 4}),
    "nn.conv2d": ((1, 4, 3, 5), (4, 4, 1, 1), {"channels": 4, "kernel_size": (1, 1)}),
    "nn.batch_matmul": ((2, 4, 4), (2, 4, 4), {"transpose_b": False}),
    "matmul": ((3, 4), (4, 4), {}),
}


def _layer(name: str, value: Value, weight: Value) -> Value:
    given = _LAYERS[name][2]
    return call(name, value, weight, **given) if given else node(name, value, weight)


def _weights() -> Iterator[Row]:
    """Weights of two layers are one constant, or have one type, or are each other's transpose, which is
    computed in one case. The layers are in one region, with an operator between, or in two."""
    for name, (shape, weights, _) in _LAYERS.items():
        matrices = TensorType(weights, "float32").size // 16
        numbers = [0.125 * i - 1.0 for i in range(16)]
        transposed = [numbers[4 * (i % 4) + i // 4] for i in range(16)]
        some = constant(*weights, low=-1.0, high=1.0)
        swapped = (0, 2, 1) if len(weights) == 3 else (1, 0, 2, 3)[: len(weights)]
        pairs: tuple[tuple[Leaf, Value], ...] = (
            (some, some),
            (some, constant(*weights, low=-1.0, high=1.0)),
            (constant(*weights, data=numbers * matrices), constant(*weights, data=transposed * matrices)),
            (some, call("transpose", some, axes=swapped)),
        )
        for one, other in pairs:
            made = _layer(name, x(*shape), one)
            yield row(_layer(name, first(made), other), needs=[name])
            yield row(_layer(name, host(made), other), needs=[name])


#: Operators, each with two sets of attributes that give results of one shape.
_CUBE, _CUT = (4, 4, 4), {"axes": (1,), "strides": (1,)}
_ATTRIBUTES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "transpose": ({"axes": (1, 2, 0)}, {"axes": (0, 2, 1)}),
    "nn.softmax": ({"axis": 0}, {"axis": -1}),
    "nn.log_softmax": ({"axis": 0}, {"axis": -1}),
    "strided_slice": ({"begin": (0,), "end": (3,), **_CUT}, {"begin": (1,), "end": (4,), **_CUT}),
    **{name: ({"axis": (0,)}, {"axis": (2,)}) for name in REDUCTIONS},
    "clip": ({"a_min": -0.5, "a_max": 1.5}, {"a_min": -1.5, "a_max": 0.75}),
    "nn.leaky_relu": ({"alpha": 0.125}, {"alpha": 0.5}),
    "cumsum": ({"axis": 0}, {"axis": 2}),
    "reverse": ({"axis": 0}, {"axis": 2}),
}


def _calls() -> Iterator[Row]:
    """An operator occurs twice with other attributes: on one value, behind itself, and in two
    regions."""
    for name, (one, other) in _ATTRIBUTES.items():
        value = x(*_CUBE)
        yield row(two(call(name, value, **one), call(name, value, **other)))
        made = call(name, value, **one)
        if name == "transpose":
            yield row(call(name, first(made), **other))
            yield row(call(name, host(made), **other))


def _operands() -> Iterator[Row]:
    """An operator occurs twice, on the same value, on its operands exchanged, or on one operand
    twice."""
    a, b = x(*_SHAPE, low=0.5, high=2.0), x(*_SHAPE, low=0.5, high=2.0)
    yield row(two(two(a, b), first(two(b, a))))
    value = first(a)
    yield row(first(second(value)), second(value))
    yield row(first(host(first(a))))
    yield row(node("add", value, value))
    yield row(node("multiply", value, value))


def _names() -> Iterator[Row]:
    """Names of inputs, as in models, become equal if special characters become underscores."""
    one, other, third, fourth = (
        x(*_SHAPE, low=0.5, high=2.0, name=name) for name in ("input.1", "input:1", "input_1", "Input_1")
    )
    yield row(two(two(two(one, other), third), fourth))


def _parts() -> Iterator[Row]:
    """Parts of one tensor begin at the same element and end at different ones, and views hold its
    elements in other shapes."""
    value = first(x(4, 6))
    cut = {"axes": (1,), "strides": (1,), "begin": (1,)}
    yield row(*(call("strided_slice", value, **cut, end=(end,)) for end in (3, 6)))
    splits = [node("split", value, indices_or_sections=at, axis=1) for at in ((1,), (4,))]
    yield row(*(Field(split, index) for split in splits for index in (0, 1)))
    yield row(*(second(call("reshape", value, newshape=shape)) for shape in ((3, 8), (8, 3))))
    for name in REDUCTIONS[:3]:
        yield row(*(call(name, call("reshape", value, newshape=s), axis=(1,)) for s in ((3, 8), (8, 3))))


def register() -> None:
    """Adds the structures of this file."""
    add_table("constants_in_one_region", _in_one_region(), in_full=True)
    add_table("constants_in_two_regions", _in_two_regions(), in_full=True)
    add_table("weights_alike", _weights(), in_full=True)
    add_table("attributes_differ", _calls())
    add_table("operands_alike", _operands(), in_full=True)
    add_table("inputs_named_alike", _names(), in_full=True)
    add_table("parts_alike", _parts())
