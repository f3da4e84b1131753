"""Operators evaluated by other libraries, for comparison with the reference kernels.

Each file has a table EVALUATE. It maps an operator's name to a function of (arrays, attributes,
output types) that returns an array or a tuple of arrays, or None where the library has no such
operator with those attributes. The function may replace operands in the list by operands that the
library supports; the kernel then gets the same operands. docs/explanation/kernels-checked.md is
generated from TABLES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import libm, onnx_convolutions, onnx_operators, scipy_functions

Evaluate = Callable[[list[Any], dict[str, Any], Any], Any]

#: The tables by the library's name.
TABLES: Mapping[str, Mapping[str, Evaluate]] = {
    "ONNX's reference evaluator": {**onnx_operators.EVALUATE, **onnx_convolutions.EVALUATE},
    "SciPy": scipy_functions.EVALUATE,
    "Python's math (libm)": libm.EVALUATE,
}
