"""Operators evaluated by other libraries, to compare the reference kernels to.

Each file has a table EVALUATE: by the operator's name, a function of (arrays, attributes, output types) that
returns an array or a tuple of them, or None where the library has no such operator with those
attributes. It may replace operands in the list, by some that the library can do: the kernel is given
the same. TABLES is what docs/explanation/kernels-checked.md is made from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import libm, onnx_convolutions, onnx_operators, scipy_functions

Evaluate = Callable[[list[Any], dict[str, Any], Any], Any]

#: By the library's name.
TABLES: Mapping[str, Mapping[str, Evaluate]] = {
    "ONNX's reference evaluator": {**onnx_operators.EVALUATE, **onnx_convolutions.EVALUATE},
    "SciPy": scipy_functions.EVALUATE,
    "Python's math (libm)": libm.EVALUATE,
}
