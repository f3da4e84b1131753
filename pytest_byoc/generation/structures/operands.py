"""Structures of a product to which an operand is added that is broadcast in every way.

A pattern of a product and its bias is often recognised by the number of elements of the operand
alone, or by the extent of its last axis.
"""

from __future__ import annotations

from functools import partial

from ...core.graph import Graph, TensorType
from ...operators.record import Attrs
from ..builder import Builder
from ..operand_classes import operand_classes
from .vocabulary import NUMERIC, STRUCTURES, Vocabulary, need

#: Shape and parameters of a product.
_Form = tuple[tuple[int, ...], Attrs]
_POINTWISE: Attrs = {"kernel_size": (1, 1), "channels": 4}
_LAST: Attrs = {**_POINTWISE, "data_layout": "NHWC"}
#: By structure: the operator, a form whose extents differ, and one whose result has equal extents, so
#: that no shape shows which axis an operand lies along.
_PRODUCTS: dict[str, tuple[str, _Form, _Form]] = {
    "dense_operands": ("nn.dense", ((3, 8), {"units": 5}), ((4, 4), {"units": 4})),
    "conv_operands": ("nn.conv2d", ((2, 3, 3, 2), _POINTWISE), ((4, 4, 4, 4), _POINTWISE)),
    "conv_nhwc_operands": ("nn.conv2d", ((2, 3, 2, 3), _LAST), ((4, 4, 4, 4), _LAST)),
    "batch_matmul_operands": (
        "nn.batch_matmul",
        ((2, 3, 4), {"columns": 5, "transpose_b": False}),
        ((4, 4, 4), {"columns": 4, "transpose_b": False}),
    ),
    "matmul_operands": ("matmul", ((2, 3, 4), {"right": (4, 5)}), ((4, 4, 4), {"right": (4, 4)})),
}


def _operands(operator: str, different: _Form, equal: _Form, b: Builder, v: Vocabulary) -> Graph:
    """A constant of each class is added to a product, with a relu behind where extents differ;
    nn.bias_add adds along each axis of equal extent (classes 10, 16, 23)."""
    need(v, operator, "add")
    outputs: list[str] = []

    def product(form: _Form) -> str:
        shape, attrs = form
        return b.simple(operator, b.input(TensorType(shape, "float32")), **attrs)

    for form in (different, equal):
        # A graph of its own shows the shape of the product.
        probe = Builder()
        shape, attrs = form
        probed = probe.simple(operator, probe.input(TensorType(shape, "float32")), **attrs)
        for _, operand in operand_classes(probe.types[probed].shape):
            constant = b.constant(TensorType(operand, "float32"), -1.0, 2.0)
            y = b.node("add", (product(form), constant), {})[0]
            outputs.append(b.simple("nn.relu", y) if form is different else y)
    if "nn.bias_add" in v.offloaded:
        rank = len(equal[0])
        outputs += (b.simple("nn.bias_add", product(equal), axis=axis) for axis in range(rank))
    return b.graph(*outputs)


def register() -> None:
    """Adds the structures of this file."""
    made = {name: partial(_operands, *product) for name, product in _PRODUCTS.items()}
    STRUCTURES.update(made)
    NUMERIC.update(made)
