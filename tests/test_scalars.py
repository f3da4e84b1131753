"""Tests of kernels of functions, arithmetic, logic and conversion by example, for values that
random operands rarely have."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from pytest_byoc.operators import logic
from pytest_byoc.operators.record import Operator
from pytest_byoc.reference_kernels import KERNELS, Bounded, exact

from .plain import plain

INF, NAN = math.inf, math.nan


def around(value: Any, error: Any, dtype: str = "float32", ambiguous: Any = False) -> Bounded:
    value, error = np.broadcast_arrays(np.asarray(value, np.float64), np.asarray(error, np.float64))
    return Bounded(value, error, np.broadcast_to(np.asarray(ambiguous), value.shape), dtype)


def apply(name: str, *operands: Any, dtype: str = "float32", **attrs: Any) -> Bounded:
    inputs = [o if isinstance(o, Bounded) else exact(np.array(o, dtype)) for o in operands]
    y = KERNELS[name](inputs, attrs)
    assert isinstance(y, Bounded)
    return y


# --- functions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "operand", "expected"),
    [
        ("erf", [INF, -INF, NAN, 0.0], [1.0, -1.0, NAN, 0.0]),
        ("rsqrt", [INF, 0.0, -1.0, 4.0], [0.0, INF, NAN, 0.5]),
        ("sin", [INF, -INF, NAN, 0.0], [NAN, NAN, NAN, 0.0]),
        ("cos", [INF, 0.0], [NAN, 1.0]),
        ("tan", [INF, 0.0], [NAN, 0.0]),
        ("asin", [1.5, 1.0], [NAN, math.pi / 2]),
        ("acos", [-1.5, 1.0], [NAN, 0.0]),
        ("atan", [INF, -INF], [math.pi / 2, -math.pi / 2]),
        ("sinh", [INF, -INF, 200.0], [INF, -INF, INF]),
        ("cosh", [INF, -INF, -200.0], [INF, INF, INF]),
        ("acosh", [0.5, 1.0, INF], [NAN, 0.0, INF]),
        ("atanh", [1.0, -1.0, 2.0], [INF, -INF, NAN]),
        ("log2", [0.0, -1.0, 8.0, INF], [-INF, NAN, 3.0, INF]),
        ("log10", [0.0, -1.0, 1000.0], [-INF, NAN, 3.0]),
        ("square", [-INF, NAN, -3.0, 1e30], [INF, NAN, 9.0, INF]),
        ("trunc", [INF, -2.75, -0.5], [INF, -2.0, 0.0]),
        ("nn.gelu", [INF, NAN, 0.0, -50.0], [INF, NAN, 0.0, 0.0]),
        ("nn.silu", [INF, NAN, 0.0, -200.0], [INF, NAN, 0.0, 0.0]),
        ("nn.selu", [INF, -INF, 0.0], [INF, -1.0507009873554805 * 1.6732632423543772, 0.0]),
        ("isnan", [NAN, INF, 0.0], [True, False, False]),
        ("isinf", [NAN, INF, -INF, 1.0], [False, True, True, False]),
        ("isfinite", [NAN, INF, 1.0], [False, False, True]),
    ],
)
def test_special_values(name: str, operand: Any, expected: Any) -> None:
    y = apply(name, operand)
    np.testing.assert_allclose(y.value, expected, rtol=1e-12, atol=1e-15)
    assert not y.ambiguous.any()


@pytest.mark.parametrize("name", ["sign", "nn.selu", "nn.relu6"])
def test_nan_is_ambiguous_where_a_comparison_selects(name: str) -> None:
    assert apply(name, NAN).ambiguous and not apply(name, 1.0).ambiguous


@pytest.mark.parametrize("name", ["nn.gelu", "nn.gelu_tanh", "nn.silu"])
def test_minus_infinity_times_zero_is_ambiguous(name: str) -> None:
    assert apply(name, -INF).ambiguous


def test_ties_may_be_rounded_either_way() -> None:
    y = apply("round", [0.5, -2.5, 2.4, 2.6, -0.4])
    np.testing.assert_array_equal(y.ambiguous, [True, True, False, False, False])
    np.testing.assert_array_equal(y.value[2:], [2.0, 3.0, 0.0])
    assert apply("round", around(2.4, 0.1)).ambiguous and not apply("round", around(2.3, 0.1)).ambiguous


def test_tangent_across_a_pole_is_ambiguous() -> None:
    y = apply("tan", around([1.5, 1.5, -1.6, 4.7], [0.01, 0.1, 0.1, 0.1]))
    np.testing.assert_array_equal(y.ambiguous, [False, True, True, True])


@pytest.mark.parametrize(("name", "at"), [("nn.gelu", -0.75), ("nn.gelu_tanh", -0.75), ("nn.silu", -1.28)])
def test_the_bound_of_an_interval_around_the_minimum_includes_it(name: str, at: float) -> None:
    """Both ends have higher values than the minimum between them."""
    y = apply(name, around(at, 0.5))
    inside = apply(name, around(at + np.linspace(-0.5, 0.5, 101), 0.0)).value
    assert y.low <= inside.min() and inside.max() <= y.high
    assert not y.ambiguous


def test_the_error_of_sine_is_small_near_its_extreme() -> None:
    error = apply("sin", around([math.pi / 2, 0.0, 1e3], [1e-3, 1e-3, 100.0])).error
    assert error[0] < 1e-5 and error[1] > 9e-4 and 1.9 < error[2] < 2.1


@pytest.mark.parametrize("name", ["sinh", "cosh"])
def test_an_exponential_that_may_overflow_before_halving_is_ambiguous(name: str) -> None:
    np.testing.assert_array_equal(apply(name, [88.0, 89.2, 90.0]).ambiguous, [False, True, False])


def test_softplus_at_its_threshold_may_be_linear_or_curved() -> None:
    y = apply("nn.softplus", [1.9999999, 1.0, 4.0], beta=0.5, threshold=1.0)
    curved = 2 * math.log(1 + math.e)
    assert y.low[0] <= 2.0 and curved <= y.high[0]
    assert y.error[1] < 1e-5 and y.value[2] == 4.0 and y.error[2] < 1e-5


def test_prelu_slopes_affect_only_negative_elements() -> None:
    alpha = around([0.5, 0.25], 0.0, ambiguous=[False, True])
    y = apply("nn.prelu", [[1.0, 2.0], [-1.0, -2.0]], alpha, axis=1)
    np.testing.assert_array_equal(y.ambiguous, [[False, False], [False, True]])
    np.testing.assert_array_equal(y.value, [[1.0, 2.0], [-0.5, -0.5]])


# --- arithmetic ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("floor_divide", [-4, -4, 3, 2]),
        ("trunc_divide", [-3, -3, 3, 2]),
        ("mod", [-1, 1, -1, 1]),
        ("trunc_mod", [-1, 1, -1, 1]),
        ("floor_mod", [1, -1, -1, 1]),
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_integer_division_with_all_signs(name: str, expected: Any, dtype: str) -> None:
    y = apply(name, [-7, 7, -7, 7], [2, -2, -2, 3], dtype=dtype)
    np.testing.assert_allclose(y.value, expected)
    assert not y.ambiguous.any()


@pytest.mark.parametrize("name", ["floor_divide", "trunc_divide", "mod", "floor_mod", "trunc_mod"])
def test_integer_division_by_zero_or_overflow_is_ambiguous(name: str) -> None:
    assert apply(name, [5, 0], [0, 0], dtype="int32").ambiguous.all()
    if "divide" in name:
        assert apply(name, -(2**31), -1, dtype="int32").ambiguous


@pytest.mark.parametrize("name", ["floor_divide", "floor_mod", "mod"])
def test_a_quotient_next_to_an_integer_is_ambiguous(name: str) -> None:
    """6 / 2 is an integer; computed by a rounded reciprocal it may be less."""
    np.testing.assert_array_equal(apply(name, [6.0, 5.0, 0.0], [2.0, 2.0, 2.0]).ambiguous, [1, 0, 0])


@pytest.mark.parametrize(
    ("base", "exponent", "expected"),
    [
        ((-2.0, 0.0), (2.0, 0.0), (4.0, False)),
        ((-2.0, 0.0), (-1.0, 0.0), (-0.5, False)),
        ((-2.0, 0.0), (0.5, 0.0), (NAN, False)),
        ((0.0, 0.0), (0.0, 0.0), (1.0, False)),
        ((0.0, 0.0), (-1.0, 0.0), (INF, False)),
        ((NAN, 0.0), (0.0, 0.0), (1.0, True)),
        ((1.0, 0.0), (NAN, 0.0), (1.0, True)),
        ((0.1, 0.2), (0.5, 0.0), (0.1**0.5, True)),
        ((-2.0, 0.0), (2.0, 1e-6), (4.0, True)),
        ((0.1, 0.2), (-1.0, 0.0), (10.0, True)),
    ],
)
def test_power(base: Any, exponent: Any, expected: Any) -> None:
    y = apply("power", around(*base), around(*exponent))
    np.testing.assert_allclose(y.value, expected[0])
    assert y.ambiguous == expected[1]


def test_an_even_power_of_an_interval_around_zero_includes_zero() -> None:
    y = apply("power", around(0.1, 0.5), around(2.0, 0.0))
    assert y.low <= 0.0 and y.high >= 0.36 and not y.ambiguous


def test_atan2_at_its_branch_cut_is_ambiguous() -> None:
    y_axis = around([0.0, 0.0, 1e-9, 0.0], [0.0, 1e-9, 1e-8, 0.0])
    y = apply("atan2", y_axis, around([-1.0, 1.0, -1.0, 0.0], 0.0))
    np.testing.assert_array_equal(y.ambiguous, [True, False, True, True])


def test_log_add_exp_whose_exponentials_overflow_is_ambiguous() -> None:
    y = apply("log_add_exp", [100.0, -120.0, 100.0, 1.0, -INF, INF], [1.0, -120.0, -INF, -120.0, 2.0, 3.0])
    np.testing.assert_array_equal(y.ambiguous, [True, True, True, False, False, False])
    np.testing.assert_allclose(y.value[3:], [1.0, 2.0, INF])


@pytest.mark.parametrize(
    ("multiplier", "shift", "expected"),
    [
        (2**30, 0, [1, 2, 0, -1]),  # ties are rounded upwards
        (2**30, -1, [0, 1, 0, -1]),
        (3 * 2**29, 1, [2, 5, -1, -4]),
        (-(2**30), 0, [0, -1, 1, 2]),
    ],
)
def test_fixed_point_multiply(multiplier: int, shift: int, expected: Any) -> None:
    y = apply("fixed_point_multiply", [1, 3, -1, -3], dtype="int32", multiplier=multiplier, shift=shift)
    np.testing.assert_array_equal(y.value, expected)
    assert apply("fixed_point_multiply", 2**30, dtype="int32", multiplier=2**31 - 1, shift=2).ambiguous


# --- logic -----------------------------------------------------------------------------------


@pytest.mark.parametrize("op", [o for o in logic.OPERATORS if "bool" in o.dtypes], ids=lambda o: o.name)
def test_truth_tables_of_boolean_operators(op: Operator) -> None:
    """Operators on booleans are applied to every combination of operands."""
    count = 3 if op.name == "where" else 2 if op.parameters else 1
    arrays = [np.array(column) for column in zip(*itertools.product([False, True], repeat=count))]
    y = apply(op.name, *arrays, dtype="bool")
    (expected,) = plain(op.name, arrays, {})
    np.testing.assert_array_equal(y.value, expected)
    assert not y.ambiguous.any() and y.value.dtype == bool


@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_comparison_is_ambiguous_where_the_bounds_overlap(name: str) -> None:
    a = around([1.0, 1.0, 1.0, 3.0], [0.0, 0.3, 0.1, 0.1])
    y = apply(name, a, around([1.0, 1.5, 1.5, 1.0], [0.0, 0.2, 0.1, 0.1]))
    np.testing.assert_array_equal(y.ambiguous, [False, True, False, False])
    nan = apply(name, NAN, 1.0)
    assert nan.ambiguous if name == "not_equal" else not (nan.ambiguous or nan.value)


def test_one_operand_may_decide_a_logical_operator() -> None:
    unknown = Bounded(np.array(True), np.array(0.0), np.array(True), "bool")
    for name, settling in (("logical_and", False), ("logical_or", True)):
        for other in (False, True):
            y = apply(name, unknown, np.array(other), dtype="bool")
            assert y.ambiguous == (other != settling)


def test_shifts() -> None:
    y = apply("left_shift", [1, -3, 2**30, 1, 1, 0], [31, 2, 1, -1, 32, 31], dtype="int32")
    np.testing.assert_array_equal(y.ambiguous, [True, False, True, True, True, False])
    assert y.value[1] == -12 and y.value[5] == 0
    y = apply("right_shift", [-7, -1, 2**31 - 1], [1, 31, 30], dtype="int32")
    np.testing.assert_array_equal(y.value, [-4, -1, 1])
    assert apply("left_shift", 200, 1, dtype="uint8").ambiguous


def test_where_ignores_the_operand_it_does_not_select() -> None:
    condition = Bounded(np.array([True, False, True]), np.zeros(3), np.array([False, False, True]), "bool")
    a, b = around(1.0, 0.5, ambiguous=True), around(2.0, 0.25)
    y = apply("where", condition, a, b)
    np.testing.assert_array_equal(y.ambiguous, [True, False, True])
    assert y.value[1] == 2.0 and y.error[1] == 0.25


# --- conversion ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        ([0.5, -0.5, 0.0, -0.0, NAN, INF], "float32", "bool", [True, True, False, False, True, True]),
        ([-3, 0, 2], "int8", "bool", [True, False, True]),
        ([True, False], "bool", "float16", [1.0, 0.0]),
        ([1.0, 2049.0, 1e9], "float32", "float16", [1.0, 2049.0, INF]),
        ([3e38, 1e6, -1e6], "bfloat16", "float16", [INF, INF, -INF]),
        ([2**24 + 1, -7], "int32", "float32", [2**24 + 1, -7]),
        ([-1.75, 2.0**62], "float64", "int64", [-1, 2**62]),
    ],
)
def test_cast(value: Any, source: str, target: str, expected: Any) -> None:
    array = around(value, 0.0, source) if "float" in source else exact(np.array(value, source))
    y = KERNELS["cast"]([array], {"dtype": target})
    assert isinstance(y, Bounded) and y.dtype == target
    np.testing.assert_array_equal(y.value, expected)
    assert not y.ambiguous.any()


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [(300, "int32", "int8"), (128, "uint8", "int8"), (2**31, "int64", "int32")],
)
def test_a_cast_to_an_integer_dtype_that_overflows_is_ambiguous(value: int, source: str, target: str) -> None:
    y = KERNELS["cast"]([exact(np.array(value, source))], {"dtype": target})
    assert isinstance(y, Bounded) and y.ambiguous
    whole = KERNELS["cast"]([around(2.0**63, 0.0, "float64")], {"dtype": "int64"})
    assert isinstance(whole, Bounded) and whole.ambiguous


@pytest.mark.parametrize(("value", "expected"), [(300, 44), (-1, 255), (256, 0)])
def test_a_cast_to_unsigned_wraps_around(value: int, expected: int) -> None:
    y = KERNELS["cast"]([exact(np.array(value, "int32"))], {"dtype": "uint8"})
    assert isinstance(y, Bounded) and y.value == expected and not y.ambiguous


def test_casts_that_round_or_cross_zero() -> None:
    x = KERNELS["cast"]([exact(np.array([2**24 + 1], "int32"))], {"dtype": "float32"})
    assert isinstance(x, Bounded) and 1.0 <= x.error[0] < 2.1
    y = KERNELS["cast"]([around([1e-9, 0.5, 1e-40], [1e-8, 0.1, 0.0])], {"dtype": "bool"})
    assert isinstance(y, Bounded)
    np.testing.assert_array_equal(y.ambiguous, [True, False, True])


def test_reinterpret() -> None:
    y = KERNELS["reinterpret"]([exact(np.array([1.0, -2.0], "float32"))], {"dtype": "int32"})
    assert isinstance(y, Bounded)
    np.testing.assert_array_equal(y.value, [0x3F800000, -0x40000000])
    inexact = KERNELS["reinterpret"]([around(1.0, 1e-9)], {"dtype": "int32"})
    assert isinstance(inexact, Bounded) and inexact.ambiguous
