"""Tests of the reference kernels against other libraries (see others)."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_byoc.core.graph import TensorType
from pytest_byoc.operators import OPERATORS
from pytest_byoc.reference_kernels import apply, exact

from .conftest import needs_new_onnx
from .others import TABLES
from .test_kernels import AGREE, Case

#: Cases tried for each operator; the library need not support all of them.
SEEDS = range(24)
#: Operators that ONNX's evaluator computes partly in single precision, whatever the dtype.
SINGLE = (
    *("erf", "nn.gelu", "nn.gelu_tanh", "nn.selu", "nn.group_norm", "nn.attention", "nn.attention_bias"),
    *("image.resize1d", "image.resize2d", "image.resize3d", "image.grid_sample", "image.affine_grid"),
    *("nn.deformable_conv2d", "nn.lrn", "qnn.dequantize"),
)

EACH = [
    pytest.param(library, name, marks=needs_new_onnx if "ONNX" in library else ())
    for library, table in TABLES.items()
    for name in table
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("library", "name"), EACH)
def test_the_value_agrees_with_another_library(library: str, name: str) -> None:
    dtypes, compared = OPERATORS[name].dtypes, 0
    for seed in SEEDS:
        case = Case(name, "float64" if "float64" in dtypes else dtypes[0], seed)
        types = [TensorType(x.shape, str(x.dtype)) for x in case.arrays]
        expected = TABLES[library][name](case.arrays, case.attrs, OPERATORS[name].infer(types, case.attrs))
        if expected is None:
            continue
        results = apply(name, [exact(a) for a in case.arrays], case.attrs)
        for y, other in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
            assert y.shape == other.shape
            single = name in SINGLE and "ONNX" in library
            tolerance = 5e-6 if single else AGREE.get(y.dtype, 0.0)
            limit = tolerance * max(1.0, float(np.max(np.abs(y.value), initial=0.0)))
            with np.errstate(all="ignore"):
                far = ~(np.abs(y.value - other.astype(np.float64)) <= limit + (y.dtype[0] in "ui") * y.error)
            far &= ~(np.isnan(y.value) & np.isnan(other.astype(np.float64)))
            assert not (far & ~y.ambiguous).any(), (case.attrs, y.value[far], other[far])
            compared += int((~y.ambiguous).sum())
    assert compared
