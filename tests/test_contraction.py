"""Tests of einsum, matmul and losses by example: type rules, special values, ignored elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_byoc.core.graph import TensorType
from pytest_byoc.operators import OPERATORS
from pytest_byoc.operators.record import TypeRuleError
from pytest_byoc.reference_kernels import KERNELS, Bounded, exact


def _apply(name: str, *arrays: Any, **attrs: Any) -> Bounded:
    y = KERNELS[name]([a if isinstance(a, Bounded) else exact(np.asarray(a)) for a in arrays], attrs)
    assert isinstance(y, Bounded)
    return y


def _floats(*values: Any) -> np.ndarray:
    return np.array(values, "float32")


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)], (2, 4)),
        ("ij, jk -> ki", [(2, 3), (3, 4)], (4, 2)),
        ("jb,jk", [(2, 3), (2, 4)], (3, 4)),
        ("ba", [(2, 3)], (3, 2)),
        ("ii", [(3, 3)], ()),
        ("i,->i", [(3,), ()], (3,)),
        ("...ij,jk", [(5, 6, 2, 3), (3, 4)], (5, 6, 2, 4)),
        ("i...,i...->...", [(5, 6, 2), (5, 6, 2)], (6, 2)),
    ],
)
def test_einsum_type(equation: str, shapes: Any, expected: Any) -> None:
    types = [TensorType(s, "float32") for s in shapes]
    (y,) = OPERATORS["einsum"].infer(types, {"equation": equation})
    assert y.shape == expected == np.einsum(equation, *map(np.ones, shapes)).shape


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("ij,jk->ik", [(2, 3), (4, 3)]), ("ij,jk->ik", [(2, 3)]), ("ii->i", [(2, 3)]), ("i->i", [(2, 3)])],
)
def test_einsum_of_mismatched_shapes_is_refused(equation: str, shapes: Any) -> None:
    with pytest.raises(TypeRuleError):
        OPERATORS["einsum"].infer([TensorType(s, "float32") for s in shapes], {"equation": equation})


@pytest.mark.parametrize(
    ("a", "b"), [((3,), (3,)), ((2, 3), (3,)), ((3,), (2, 3, 4)), ((2, 1, 5, 3), (4, 3, 2))]
)
def test_matmul_type(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    (y,) = OPERATORS["matmul"].infer([TensorType(a, "int32"), TensorType(b, "int32")], {})
    assert y.shape == np.matmul(np.ones(a), np.ones(b)).shape


def test_einsum_that_only_moves_elements_has_no_error() -> None:
    x = np.arange(9, dtype="float32").reshape(3, 3)
    for equation in ("ij->ji", "ii->i"):
        assert not _apply("einsum", x, equation=equation).error.any()


def test_einsum_of_infinity_and_an_interval_around_zero_is_ambiguous() -> None:
    b = Bounded(np.array([1e-9, 2.0]), np.array([1e-8, 0.0]), np.zeros(2, bool), "float32")
    y = _apply("einsum", _floats(np.inf, 1.0), b, equation="i,i->i")
    np.testing.assert_array_equal(y.ambiguous, [True, False])
    # The other terms of a sum with an infinity may be inexact.
    c = Bounded(np.array([2.0, 2.0]), np.array([0.0, 1e-8]), np.zeros(2, bool), "float32")
    sure = _apply("einsum", _floats(np.inf, 1.0), c, equation="i,i->")
    assert sure.value == np.inf and not sure.ambiguous


def test_einsum_product_whose_partial_product_underflows_has_a_bound() -> None:
    """1e-30 * 1e-30 underflows in float32 before 1e30 is multiplied in; another order does not
    underflow."""
    y = _apply("einsum", _floats(1e-30), _floats(1e-30), _floats(1e30), equation="i,i,i->i")
    assert y.value - y.error <= 0 and y.error < 1e-5


def test_an_integer_einsum_whose_partial_sums_may_overflow_is_ambiguous() -> None:
    a = np.array([2**30, 2**30], "int32")
    assert _apply("einsum", a, np.array([1, -1], "int32"), equation="i,i->").ambiguous
    assert not _apply("einsum", a, np.array([1, 0], "int32"), equation="i,i->").ambiguous


# --- losses ----------------------------------------------------------------------------------


def _nll(predictions: Any, targets: Any, reduction: str, ignored: int = -100) -> Bounded:
    attrs = {"reduction": reduction, "ignore_index": ignored}
    return _apply("nn.nll_loss", predictions, np.array(targets, "int32"), _floats(0.5, 1.0, 2.0), **attrs)


def test_negative_log_likelihood() -> None:
    x = _floats([-1, -2, -3], [-4, -5, -6])
    np.testing.assert_array_equal(_nll(x, [2, 0], "none").value, [6.0, 2.0])
    assert _nll(x, [2, 0], "sum").value == 8.0
    assert _nll(x, [2, 0], "mean").value == 8.0 / 2.5


def test_ignored_targets_count_in_neither_sum() -> None:
    x = _floats([-1, np.nan, -3], [-4, -5, -6])
    np.testing.assert_array_equal(_nll(x, [1, 0], "none", 1).value, [0.0, 2.0])
    y = _nll(x, [1, 0], "mean", 1)
    assert y.value == 4.0 and not y.ambiguous


def test_the_loss_of_an_ignored_target_is_a_zero_of_either_sign() -> None:
    lost = _nll(_floats([-1, -2, -3], [-4, -5, -6]), [1, 0], "none", 1)
    y = _apply("divide", _floats(1.0, 1.0), lost)
    np.testing.assert_array_equal(y.ambiguous, [True, False])


def test_the_mean_loss_of_no_targets_is_nan() -> None:
    y = _nll(_floats([-1, -2, -3]), [1], "mean", 1)
    assert np.isnan(y.value) and not y.ambiguous


def test_cross_entropy() -> None:
    x, labels = _floats([0.5, 0.25], [0.125, 1.0]), _floats([0.0, 1.0], [1.0, 0.0])
    y = _apply("nn.cross_entropy", x, labels)
    assert abs(y.value - 5 * np.log(2) / 2) <= y.error < 1e-5
    assert _apply("nn.cross_entropy_with_logits", x, labels).value == -0.1875
