"""Plain evaluations of operators, for comparison with the reference kernels. They share no code
with them.

`plain` evaluates an operator in the arrays' own dtype, rounding after each operation and adding in
a given order. In float64 it gives the value; in float32 and float16 it shows how far a correct
implementation may deviate. Each family has a file with a table PLAIN, which maps an operator's name
to a function of (arrays, attributes, output types, order of sums) that returns an array or a tuple
of arrays. An evaluation by another library (SciPy, ONNX's reference evaluator) serves as well as
one written out; the file's table BY then names the library, by the operator's name.
docs/explanation/kernels-checked.md is generated from these tables.
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


#: The name of an evaluation that has no entry in BY.
WRITTEN_OUT = "written out in NumPy"


def evaluated_by(name: str) -> str:
    """Returns the name of the method or library that evaluates an operator plainly."""
    table = next((t for t in TABLES if name in t.PLAIN), first)
    by: dict[str, str] = getattr(table, "BY", {})
    return by.get(name, WRITTEN_OUT)


def plain(
    name: str, arrays: list[np.ndarray], a: dict[str, Any], add: Sum = forwards
) -> tuple[np.ndarray, ...]:
    """Returns the operator's results in the arrays' dtype; sums are computed by `add`."""
    outs = OPERATORS[name].infer([TensorType(x.shape, str(x.dtype)) for x in arrays], a)
    table = next((t.PLAIN for t in TABLES if name in t.PLAIN), None)
    with np.errstate(all="ignore"):
        if table is None:
            results = first.evaluate(name, arrays, a, outs, add)
        else:
            result = table[name](arrays, a, outs, add)
            results = result if isinstance(result, tuple) else (result,)
    assert [(y.shape, str(y.dtype)) for y in results] == [(t.shape, t.dtype) for t in outs]
    return results
