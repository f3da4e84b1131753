"""Operators evaluated plainly, to compare the reference kernels to. Shares no code with them.

`plain` evaluates an operator in the arrays' own dtype, one rounding after the other, summing in a
given order. In float64 it says what the value is; in float32 and float16, how far a correct
implementation may stray. Each family has a file with a table PLAIN: by the operator's name, a function
of (arrays, attributes, output types, order of sums) that returns an array or a tuple of them. An
evaluation by another library (SciPy, ONNX's reference evaluator) does as well as one written out: then
the file's table BY says whose, by the operator's name. docs/explanation/kernels-checked.md is made from that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_byoc.core.graph import TensorType
from pytest_byoc.operators import OPERATORS

from . import (
    arithmetic,
    attention,
    contraction,
    conversion,
    convolution_nd,
    deformable,
    first,
    functions,
    indexing,
    logic,
    loss,
    normalization,
    pooling_nd,
    quantized,
    quantized_arithmetic,
    rearranging,
    resize,
    sampling,
    scattering,
    shape_like,
    sorting,
    statistics,
    transposed,
)
from .sums import ORDERS, Sum, forwards

__all__ = ["ORDERS", "WRITTEN_OUT", "Sum", "evaluated_by", "forwards", "plain"]

TABLES: tuple[Any, ...] = (
    functions,
    arithmetic,
    logic,
    conversion,
    statistics,
    indexing,
    scattering,
    sorting,
    rearranging,
    resize,
    sampling,
    shape_like,
    convolution_nd,
    transposed,
    deformable,
    pooling_nd,
    normalization,
    loss,
    contraction,
    attention,
    quantized,
    quantized_arithmetic,
)


#: Of an evaluation that BY says nothing of.
WRITTEN_OUT = "written out in NumPy"


def evaluated_by(name: str) -> str:
    """What the plain evaluation of an operator goes by."""
    table = next((t for t in TABLES if name in t.PLAIN), first)
    by: dict[str, str] = getattr(table, "BY", {})
    return by.get(name, WRITTEN_OUT)


def plain(
    name: str, arrays: list[np.ndarray], a: dict[str, Any], add: Sum = forwards
) -> tuple[np.ndarray, ...]:
    """The operator's results, in the arrays' dtype, sums made by `add`."""
    outs = OPERATORS[name].infer([TensorType(x.shape, str(x.dtype)) for x in arrays], a)
    table = next((t.PLAIN for t in TABLES if name in t.PLAIN), None)
    with np.errstate(all="ignore"):
        if table is None:
            found = first.evaluate(name, arrays, a, outs, add)
        else:
            made = table[name](arrays, a, outs, add)
            found = made if isinstance(made, tuple) else (made,)
    assert [(y.shape, str(y.dtype)) for y in found] == [(t.shape, t.dtype) for t in outs]
    return found
