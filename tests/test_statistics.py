"""Tests of reductions to an index, a truth value or a spread, and of scans, by example."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_byoc.reference_kernels import KERNELS, Bounded, exact

from .plain.statistics import one_pass
from .plain.sums import forwards

ATTRS: dict[str, Any] = {"axis": (-1,), "keepdims": False, "exclude": False}


def apply(name: str, x: Bounded, **attrs: Any) -> Bounded:
    y = KERNELS[name]([x], {**ATTRS, "select_last_index": False, "dtype": "int32", **attrs})
    assert isinstance(y, Bounded)
    return y


def bounded(values: Any, errors: Any) -> Bounded:
    value = np.array(values, np.float64)
    return Bounded(value, np.array(errors, np.float64), np.zeros(value.shape, bool), "float32")


@pytest.mark.parametrize(("name", "first", "last"), [("argmax", 1, 3), ("argmin", 0, 2)])
def test_argmax_and_argmin_select_the_first_or_last_equal_element(name: str, first: int, last: int) -> None:
    x = exact(np.array([-2.0, 5.0, -2.0, 5.0], "float32"))
    assert apply(name, x).value == first and not apply(name, x).ambiguous
    assert apply(name, x, select_last_index=True).value == last


@pytest.mark.parametrize(
    ("values", "errors", "ambiguous"),
    [
        ([1.0, 3.0, 2.9], [0.0, 0.06, 0.05], True),
        ([1.0, 3.0, 2.9], [0.0, 0.04, 0.05], False),
        ([3.0, 3.0, 2.9], [0.0, 0.0, 0.05], False),
        ([3.0, 3.0, 2.9], [0.0, 0.0, 0.15], True),
        ([1.0, np.nan, 2.9], [0.0, 0.0, 0.0], True),
        ([1.0, np.inf, 2.9], [0.0, 0.0, 0.0], False),
        ([-np.inf, 2.0, -np.inf], [0.0, 0.1, 0.0], False),
    ],
)
def test_argmax_is_ambiguous_where_rounding_decides(values: Any, errors: Any, ambiguous: bool) -> None:
    assert apply("argmax", bounded(values, errors)).ambiguous == ambiguous


@pytest.mark.parametrize(
    ("name", "dtype", "values", "ambiguous"),
    [
        ("argmax", "uint8", [0, 0], True),
        ("argmin", "uint8", [0, 0], False),
        ("argmax", "int8", [-128, -128], True),
        ("argmax", "int8", [-128, -127], False),
        ("argmin", "int8", [127], True),
        ("argmax", "float32", [-np.inf, -np.inf], True),
        ("argmin", "float32", [np.inf, 3e38], False),
    ],
)
def test_argmax_of_only_the_least_value_of_the_dtype_is_ambiguous(
    name: str, dtype: str, values: Any, ambiguous: bool
) -> None:
    assert apply(name, exact(np.array(values, dtype))).ambiguous == ambiguous


def test_argmax_over_several_axes_is_a_flat_index() -> None:
    x = np.zeros((2, 3, 4), "float32")
    x[1, :, 2] = 1
    np.testing.assert_array_equal(apply("argmax", exact(x), axis=(0, 2)).value, [6, 6, 6])


@pytest.mark.parametrize(("name", "values"), [("all", [True, False]), ("any", [False, True])])
def test_one_element_can_decide_all_and_any(name: str, values: list[bool]) -> None:
    x = exact(np.array(values))
    x.ambiguous[0] = True
    y = apply(name, x)
    assert y.value == (name == "any") and not y.ambiguous
    x.ambiguous[1] = True
    assert apply(name, x).ambiguous


@pytest.mark.parametrize("name", ["variance", "std"])
@pytest.mark.parametrize("unbiased", [False, True])
def test_variance_in_one_pass_is_inside_the_bound(name: str, unbiased: bool) -> None:
    """The mean is far from zero, where cancellation is largest."""
    x = (np.random.default_rng(3).uniform(-1, 1, (50, 9)) + 20).astype("float32")
    attrs = {**ATTRS, "unbiased": unbiased}
    y = apply(name, exact(x), unbiased=unbiased)
    actual = one_pass([x], attrs, [exact(np.zeros(50, "float32"))], forwards)
    actual = np.sqrt(np.maximum(actual, 0)) if name == "std" else actual
    assert np.all(np.abs(actual - y.value) <= y.error)


def test_variance_with_an_infinity_is_nan() -> None:
    y = apply("variance", exact(np.array([1.0, np.inf], "float32")), unbiased=False)
    assert np.isnan(y.value) and not y.ambiguous


def test_logsumexp_of_distant_values_and_of_infinities() -> None:
    y = apply("logsumexp", exact(np.array([[500.0, -500.0], [500.0, 500.0]], "float32")))
    np.testing.assert_allclose(y.value, [500.0, 500.0 + np.log(2)])
    assert y.error.max() < 1e-3 and not y.ambiguous.any()
    # Subtracting the maximum gives NaN for infinities, the plain formula does not.
    assert apply("logsumexp", exact(np.array([1.0, np.inf], "float32"))).ambiguous


@pytest.mark.parametrize("dtype", [None, "int16"])
def test_a_scan_overflows_in_the_dtype_of_its_sums(dtype: str | None) -> None:
    x = exact(np.array([100, 20, 20, -50], "int8"))
    y = apply("cumsum", x, axis=0, dtype=dtype, exclusive=False)
    np.testing.assert_array_equal(y.ambiguous, [False, False, dtype is None, dtype is None])
    np.testing.assert_array_equal(y.value, [100, 120, 140, 90])


def test_an_exclusive_scan_excludes_the_element_itself() -> None:
    x = exact(np.array([[2.0, np.inf, -3.0]], "float32"))
    y = apply("cumsum", x, axis=-1, dtype=None, exclusive=True)
    np.testing.assert_array_equal(y.value, [[0.0, 2.0, np.inf]])
    y = apply("cumprod", x, axis=None, dtype="float64", exclusive=True)
    np.testing.assert_array_equal(y.value, [1.0, 2.0, np.inf])
    assert not y.ambiguous.any() and y.dtype == "float64"


def test_mean_of_integers_is_rounded_towards_zero() -> None:
    y = apply("mean", exact(np.array([[-7, 0], [7, 0]], "int32")))
    np.testing.assert_array_equal(y.value, [-3, 3])
