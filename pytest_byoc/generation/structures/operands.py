"""Structures of an elementwise step behind a product, or alone, whose other operand is broadcast in
every way.

A pattern of a product and its bias is often recognised by the number of elements of the operand
alone, or by the extent of its last axis (classes 10, 16, 23).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..operand_classes import operand_classes
from .expressions import Call, Row, add_table, call, constant, node, row, x
from .vocabulary import BINARY

_POINTWISE: dict[str, Any] = {"kernel_size": (1, 1), "channels": 4}
_LAST: dict[str, Any] = {**_POINTWISE, "data_layout": "NHWC"}
_PLAIN: dict[str, Any] = {"columns": 5, "transpose_b": False}
#: By structure: the operator, and twice a shape of its operand, parameters, and the shape of the
#: result. The extents of the first result differ; those of the second are equal, so that no shape shows
#: which axis an operand lies along.
_Form = tuple[tuple[int, ...], dict[str, Any], tuple[int, ...]]
_PRODUCTS: dict[str, tuple[str, _Form, _Form]] = {
    "dense_operands": ("nn.dense", ((3, 8), {"units": 5}, (3, 5)), ((4, 4), {"units": 4}, (4, 4))),
    "conv_operands": (
        "nn.conv2d", ((2, 3, 3, 2), _POINTWISE, (2, 4, 3, 2)), ((4, 4, 4, 4), _POINTWISE, (4, 4, 4, 4))
    ),
    "conv_nhwc_operands": (
        "nn.conv2d", ((2, 3, 2, 3), _LAST, (2, 3, 2, 4)), ((4, 4, 4, 4), _LAST, (4, 4, 4, 4))
    ),
    "batch_matmul_operands": (
        "nn.batch_matmul", ((2, 3, 4), _PLAIN, (2, 3, 5)), ((4, 4, 4), {**_PLAIN, "columns": 4}, (4, 4, 4))
    ),
    "matmul_operands": (
        "matmul", ((2, 3, 4), {"right": (4, 5)}, (2, 3, 5)), ((4, 4, 4), {"right": (4, 4)}, (4, 4, 4))
    ),
}


def _operands(operator: str, different: _Form, equal: _Form) -> Iterator[Row]:
    """A constant of each class is added to a product, with a relu behind where extents differ;
    nn.bias_add adds along each axis of equal extent."""
    for form in (different, equal):
        shape, given, result = form
        for _, operand in operand_classes(result):
            total = node("add", call(operator, x(*shape), **given), constant(*operand, low=-1.0))
            yield row(call("nn.relu", total) if form is different else total, needs=[operator, "add"])
    shape, given, result = equal
    for axis in range(len(result)):
        yield row(call("nn.bias_add", call(operator, x(*shape), **given), axis=axis))


def _of_binaries() -> Iterator[Row]:
    """Vectors and matrices lie along each axis of a tensor with equal extents."""
    makers: tuple[Callable[..., Any], ...] = (x, constant)
    cube = x(4, 4, 4, low=0.5, high=2.0)
    for name in BINARY:
        for number, (_, shape) in enumerate((*operand_classes((4, 4, 4)), ("", (4, 1, 4)), ("", (1, 4)))):
            yield row(node(name, cube, makers[number % 4 == 3](*shape, low=0.5, high=2.0)))
    biases: list[Call] = [call("nn.bias_add", cube, axis=axis) for axis in range(3)]
    yield from map(row, biases)


def register() -> None:
    """Adds the structures of this file."""
    for name, product in _PRODUCTS.items():
        add_table(name, _operands(*product), at_smoke="nhwc" not in name)
    add_table("binary_operands", _of_binaries())
