"""Tests of elements selected, placed and ordered by index, by example."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_byoc.core.graph import TensorType
from pytest_byoc.operators import OPERATORS
from pytest_byoc.reference_kernels import KERNELS, Bounded, exact


def apply(name: str, *operands: Any, **attrs: Any) -> Bounded:
    y = KERNELS[name]([o if isinstance(o, Bounded) else exact(np.array(o)) for o in operands], attrs)
    assert isinstance(y, Bounded)
    return y


def bounded(values: Any, errors: Any) -> Bounded:
    value = np.array(values, np.float64)
    return Bounded(value, np.array(errors, np.float64), np.zeros(value.shape, bool), "float32")


ROW = np.array([10.0, 11.0, 12.0], "float32")


@pytest.mark.parametrize(
    ("mode", "expected", "ambiguous"),
    [
        ("clip", [10, 10, 12, 12], [False] * 4),
        ("wrap", [11, 12, 12, 10], [False] * 4),
        ("nan", [np.nan, np.nan, 12, np.nan], [False] * 4),
        # Any memory may be read.
        ("fast", [10, 10, 12, 12], [True, True, False, True]),
    ],
)
def test_take_of_indices_outside_the_axis(mode: str, expected: Any, ambiguous: Any) -> None:
    y = apply("take", ROW, [-5, -1, 2, 3], axis=0, mode=mode, batch_dims=0)
    np.testing.assert_array_equal(y.value, expected)
    np.testing.assert_array_equal(y.ambiguous, ambiguous)


def test_take_of_each_row_of_a_batch() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    y = apply("take", x, [[3, 0], [1, 1]], axis=2, mode="clip", batch_dims=1)
    np.testing.assert_array_equal(y.value[0], x[0][:, [3, 0]])
    np.testing.assert_array_equal(y.value[1], x[1][:, [1, 1]])


def test_gather_nd_has_coordinates_first_in_relay_and_last_in_relax() -> None:
    """The examples of the two `gather_nd` come from TVM's documentation."""
    y = apply(
        "gather_nd", [[0, 1], [2, 3]], [[1, 1, 0], [0, 1, 0]], batch_dims=0, index_last=False
    )
    np.testing.assert_array_equal(y.value, [2, 3, 0])
    x = [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    y = apply("gather_nd", x, [[1], [0]], batch_dims=1, index_last=True)
    np.testing.assert_array_equal(y.value, [[2, 3], [4, 5]])


def test_an_index_outside_the_axis_is_ambiguous() -> None:
    y = apply("gather", ROW, [0, 3, -1], axis=0)
    np.testing.assert_array_equal(y.ambiguous, [False, True, True])
    assert apply("scatter_elements", ROW, [3], ROW[:1], axis=0, reduction="update").ambiguous.all()


@pytest.mark.parametrize(
    ("how", "expected", "ambiguous"),
    [
        ("update", None, [True, False, False]),
        ("mean", None, [True, False, False]),
        ("add", [16, 11, 17], [False] * 3),
        ("mul", [80, 11, 60], [False] * 3),
        ("min", [2, 11, 5], [False] * 3),
        ("max", [10, 11, 12], [False] * 3),
    ],
)
def test_several_updates_of_one_element(how: str, expected: Any, ambiguous: Any) -> None:
    updates = np.array([2.0, 4.0, 5.0], "float32")
    y = apply("scatter_elements", ROW, [0, 0, 2], updates, axis=0, reduction=how)
    np.testing.assert_array_equal(y.ambiguous, ambiguous)
    # An element without updates is not rounded.
    assert y.error[1] == 0
    if expected:
        np.testing.assert_array_equal(y.value, expected)


def test_matrix_set_diag_aligns_a_band_on_either_side() -> None:
    """The example is that of `matrix_set_diag` in TensorFlow's documentation, whose formats TVM
    accepts."""
    x, band = np.zeros((3, 3)), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 0.0]]
    y = apply("matrix_set_diag", x, band, k=(-1, 1), align="RIGHT_LEFT")
    np.testing.assert_array_equal(y.value, [[3, 1, 0], [6, 4, 2], [0, 7, 5]])
    y = apply("matrix_set_diag", x, band, k=(-1, 1), align="LEFT_RIGHT")
    np.testing.assert_array_equal(y.value, [[3, 0, 0], [7, 4, 1], [0, 0, 5]])


def test_reverse_sequence_with_lengths_above_the_extent() -> None:
    x = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    y = apply("reverse_sequence", x, [0, 2, 9], seq_axis=1, batch_axis=0)
    np.testing.assert_array_equal(y.value, [[1, 2, 3], [5, 4, 6], [9, 8, 7]])


@pytest.mark.parametrize(
    ("values", "errors", "ambiguous"),
    [
        ([3.0, 1.0, 2.0], [0.0, 0.4, 0.5], [False, False, False]),
        ([3.0, 1.0, 2.0], [0.0, 0.6, 0.5], [True, True, False]),
        ([3.0, 1.0, 2.0], [0.0, 0.0, 5.0], [True, True, True]),
        ([3.0, 1.0, 1.0], [0.0, 0.0, 0.0], [True, True, False]),
        ([np.inf, -np.inf, 1.0], [0.0, 0.0, 0.5], [False, False, False]),
        ([3.0, np.nan, 1.0], [0.0, 0.0, 0.0], [True, True, True]),
    ],
)
def test_order_undecided_by_rounding_or_a_tie_is_ambiguous(values: Any, errors: Any, ambiguous: Any) -> None:
    y = apply("argsort", bounded(values, errors), axis=0, is_ascend=True, dtype="int32")
    np.testing.assert_array_equal(y.ambiguous, ambiguous)


def test_a_sorted_integer_between_equal_ones_is_not_ambiguous() -> None:
    x = exact(np.array([5, 7, 5, 9], "int32"))
    x.ambiguous[1] = True
    y = apply("sort", x, axis=0, is_ascend=True)
    np.testing.assert_array_equal(y.ambiguous, [True, False, True, True])
    assert y.value[1] == 5


def test_bucket_of_a_value_that_may_be_a_boundary_is_ambiguous() -> None:
    x = bounded([1.0, 1.0, 1.5, 1.5], [0.0, 0.1, 0.0, 0.1])
    y = apply("bucketize", x, np.array([0.0, 1.0, 2.0], "float32"), out_int32=True, right=False)
    np.testing.assert_array_equal(y.value[[0, 2, 3]], [1, 2, 2])
    np.testing.assert_array_equal(y.ambiguous, [False, True, False, False])


@pytest.mark.parametrize("name", ["gather_nd", "scatter_elements", "scatter_nd", "index_put"])
def test_generated_indices_are_valid_and_distinct_where_required(name: str) -> None:
    op = OPERATORS[name]
    for shape in op.shapes:
        x = TensorType(shape, "float32")
        values: dict[str, Any] = {}
        for p in op.parameters:
            values[p.name] = next(iter(p.values(x, values).values()))[0]
        operands = op.operands(x, values)
        arrays = [
            exact(np.array(o.data).reshape(o.type.shape) if o.data else np.ones(o.type.shape, "float32"))
            for o in operands
        ]
        y = KERNELS[name](arrays, op.attrs(values))
        assert isinstance(y, Bounded) and not y.ambiguous.any(), (shape, values)
