"""Tests of the reference kernels against evaluations that share no code with them (see plain)."""

from __future__ import annotations

import itertools
import math
import random
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pytest_byoc.core.graph import Source, TensorType
from pytest_byoc.generation import data
from pytest_byoc.operators import OPERATORS
from pytest_byoc.operators.record import CONSTANT, FRESH, LEAD, OWN
from pytest_byoc.reference_kernels import KERNELS, Bounded, exact
from pytest_byoc.reference_kernels.bounded import LARGEST, accumulated, gamma, integer, rounded

from .plain import ORDERS, Sum, forwards, plain

# --- cases -----------------------------------------------------------------------------------


class Case:
    """An operator applied to operands drawn from its record's ranges."""

    def __init__(self, name: str, dtype: str, seed: int) -> None:
        op, draw = OPERATORS[name], random.Random(zlib.crc32((f"{name} {seed}").encode()))
        x = TensorType(op.shapes[seed % len(op.shapes)], dtype)
        parameters: dict[str, Any] = {}
        for parameter in op.parameters:
            values = parameter.values(x, parameters)
            parameters[parameter.name] = draw.choice(values[draw.choice(list(values))])
        self.name, self.attrs = name, op.attrs(parameters)
        self.operands = op.operands(x, parameters)
        self.arrays = []
        for i, o in enumerate(self.operands):
            low, high = op.domain if op.domain and o.role == LEAD else o.range()
            self.arrays.append(data.array(Source(f"x{i}", o.type, low, high, seed * 101 + i + 1, o.data)))

    def kernel(self, inputs: list[Bounded] | None = None) -> tuple[Bounded, ...]:
        out = KERNELS[self.name](inputs or [exact(a) for a in self.arrays], self.attrs)
        return out if isinstance(out, tuple) else (out,)

    def plain(self, arrays: list[np.ndarray] | None = None, add: Sum = forwards) -> tuple[np.ndarray, ...]:
        return plain(self.name, self.arrays if arrays is None else arrays, self.attrs, add)


SEEDS = range(12)
EVERY = pytest.mark.parametrize("name", list(OPERATORS))
#: Operators on real numbers; quantised operators have their own tests.
REAL = pytest.mark.parametrize("name", [n for n, op in OPERATORS.items() if "float32" in op.dtypes])


#: Before NumPy 2, arithmetic of ml_dtypes arrays and Python numbers changes the dtype.
NUMPY_2 = int(np.__version__.split(".")[0]) >= 2


def each(*dtypes: str) -> Any:
    """Parametrizes by operator and dtype, for the dtypes that the operator has."""
    combinations = [(n, d) for n, op in OPERATORS.items() for d in dtypes if d in op.dtypes]
    return pytest.mark.parametrize(("name", "dtype"), combinations)



def outside(y: Bounded, actual: np.ndarray, slack: float = 0.0) -> np.ndarray:
    """Returns a mask of the elements of `actual` that are neither within the bound nor
    ambiguous."""
    with np.errstate(all="ignore"):
        far = np.abs(actual.astype(np.float64) - y.value) > y.error + slack * np.abs(y.value)
    return far & ~y.ambiguous


# --- every kernel ----------------------------------------------------------------------------


#: By dtype, the largest relative difference between the float64 value and a plain evaluation.
AGREE = {"float64": 1e-13, "float32": 1e-6, "float16": 2e-3, "bfloat16": 1e-2}


@each("float64", "int32", "uint8")
def test_value_is_that_of_a_plain_evaluation(name: str, dtype: str) -> None:
    """Values are compared in float64, integers exactly. Most elements are unambiguous."""
    ambiguous: list[bool] = []
    for seed in SEEDS:
        case = Case(name, dtype, seed)
        for y, expected in zip(case.kernel(), case.plain(), strict=True):
            # Sums cancel: the limit is relative to the largest element.
            limit = AGREE.get(y.dtype, 0.0) * max(1.0, float(np.max(np.abs(expected))))
            far = np.abs(y.value - expected.astype(np.float64)) > limit
            assert not (far & ~y.ambiguous).any(), (case.attrs, y.value, expected)
            ambiguous += y.ambiguous.ravel().tolist()
    # The order of equal integers is undecided.
    assert ambiguous and np.mean(ambiguous) < (0.5 if dtype.startswith(("float", "bfloat")) else 0.75)


@each("float32", "float16", *(("bfloat16",) if NUMPY_2 else ()))
@pytest.mark.parametrize("order", ORDERS)
def test_a_correct_evaluation_is_inside_the_bound(name: str, dtype: str, order: str) -> None:
    for seed in SEEDS:
        case = Case(name, dtype, seed)
        for y, result in zip(case.kernel(), case.plain(add=ORDERS[order]), strict=True):
            bad = outside(y, result)
            assert not bad.any(), (case.attrs, result[bad], y.value[bad], y.error[bad])


@REAL
def test_the_bound_is_narrow(name: str) -> None:
    """In float32 the median bound is below 1e-5 of the result."""
    relative: list[float] = []
    for seed in SEEDS:
        for y in Case(name, "float32", seed).kernel():
            some = (y.value != 0) & ~np.isnan(y.value) & ~y.ambiguous & (y.dtype == "float32")
            relative += list(y.error[some] / np.abs(y.value[some]))
    # Operators that return integers or truth values have no bound.
    assert not relative or np.median(relative) < 1e-5
    results = Case(name, "float32", 0).kernel()
    assert relative or all(y.dtype != "float32" or not y.value.any() for y in results)


@REAL
def test_a_wrong_result_is_outside_the_bound(name: str) -> None:
    """An error of a thousandth of the largest result is not rounding."""
    case = Case(name, "float32", 0)
    for y in case.kernel():
        if y.dtype == "float32":
            wrong = y.value + 1e-3 * (np.max(np.abs(y.value)) or 1.0)
            assert np.all(outside(y, wrong) | y.ambiguous)


@pytest.mark.parametrize("name", [n for n, op in OPERATORS.items() if "float64" in op.dtypes])
def test_errors_of_operands_propagate(name: str) -> None:
    """Operands anywhere in their intervals give results within the bound."""
    numbers = np.random.default_rng(5)
    for seed, size in itertools.product(SEEDS, (1e-4, 0.05)):
        case = Case(name, "float64", seed)
        bounded = []
        for a, o in zip(case.arrays, case.operands, strict=True):
            error = numbers.uniform(0, size, a.shape) * (numbers.uniform(size=a.shape) < 0.7)
            if o.role in (FRESH, OWN, CONSTANT) or o.type.dtype != "float64":
                error = np.zeros(a.shape)
            bounded.append(replace(exact(a), error=error))
        results = case.kernel(bounded)
        for corner in range(4):
            away = [numbers.choice([-1.0, 1.0] if corner else [1.0], b.shape) for b in bounded]
            moved = [
                (b.value + d * b.error).astype(o.type.dtype)
                for b, d, o in zip(bounded, away, case.operands, strict=True)
            ]
            for y, result in zip(results, case.plain(moved), strict=True):
                bad = outside(y, result, slack=1e-13)
                assert not bad.any(), (case.attrs, result[bad], y.value[bad], y.error[bad])


def telling(case: Case, dtype: str) -> list[float]:
    """Returns values of which at least one changes the result if the operator depends on the
    element."""
    values = [-101.3, 0.1, 97.7]
    # The softmax of a single element, its normalisation and its spread depend only on whether it is
    # NaN.
    if any(part in case.name for part in ("softmax", "norm", "attention", "variance", "std")):
        values.append(np.nan)
    if case.name.startswith("is"):
        values += [np.nan, np.inf]
    if case.name == "one_hot":
        # Each position depends on whether it is the one named.
        values += range(67)
    if case.name in ("cast", "cast_like"):
        values.append(0.0)
    if case.name in ("equal", "not_equal"):
        values += [float(v) for a in case.arrays for v in a.flat]
    return values + [-1.0] if dtype == "int32" else values


@each("float64", "int32")
def test_ambiguity_spreads_exactly_to_dependent_elements(name: str, dtype: str) -> None:
    numbers = np.random.default_rng(3)
    for seed in SEEDS:
        case = Case(name, dtype, seed)
        # No result depends on an element that is multiplied by zero.
        case.arrays = [
            a if o.role in (FRESH, OWN, CONSTANT) else np.where(a == 0, a.dtype.type(1), a)
            for a, o in zip(case.arrays, case.operands, strict=True)
        ]
        if name == "power" and not case.arrays[1].all():
            continue  # the zeroth power depends on its base only where that is NaN, if at all
        before = case.plain()
        for operand, array in enumerate(case.arrays):
            if case.operands[operand].role in (FRESH, OWN, CONSTANT) or array.dtype == bool:
                continue
            at = tuple(int(numbers.integers(d)) for d in array.shape)
            inputs = [exact(a) for a in case.arrays]
            inputs[operand].ambiguous[at] = True
            inputs[operand].error[at] = np.inf
            depends = [np.zeros(b.shape, bool) for b in before]
            for value in telling(case, dtype):
                if array.dtype.kind == "u" and value < 0:
                    continue
                changed = [a.copy() for a in case.arrays]
                changed[operand][at] = value
                for d, new, old in zip(depends, case.plain(changed), before, strict=True):
                    # A NaN that stays NaN has not changed.
                    d |= (new != old) & ~((new != new) & (old != old))
            untouched = case.kernel()
            for d, y, u in zip(depends, case.kernel(inputs), untouched, strict=True):
                np.testing.assert_array_equal(y.ambiguous, d | u.ambiguous, str(case.attrs))


@pytest.mark.parametrize("name", [n for n, op in OPERATORS.items() if op.accuracy == "exact"])
def test_results_of_exact_operators_have_no_error(name: str) -> None:
    for dtype in OPERATORS[name].dtypes[:3]:
        for y in Case(name, dtype, 1).kernel():
            assert not y.error.any()


# --- special values --------------------------------------------------------------------------


def _apply(name: str, *arrays: Any, dtype: str = "float32", **attrs: Any) -> Bounded:
    y = KERNELS[name]([exact(np.array(a, dtype)) for a in arrays], attrs)
    assert isinstance(y, Bounded)
    return y


def _sum(values: Any, dtype: str = "float32", name: str = "sum") -> Bounded:
    return _apply(name, values, dtype=dtype, axis=None, keepdims=False, exclude=False)


def test_sum_of_infinity_and_finite_numbers_is_infinity() -> None:
    y = _sum([1.0, np.inf, -2.0])
    assert y.value == np.inf and y.error == 0 and not y.ambiguous


def test_sum_of_both_infinities_is_nan() -> None:
    y = _sum([np.inf, 1.0, -np.inf])
    assert np.isnan(y.value) and not y.ambiguous


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_sum_whose_partial_sums_may_overflow_is_ambiguous(dtype: str) -> None:
    big = 0.75 * LARGEST[dtype]
    assert _sum([big, big, -big], dtype).ambiguous
    assert not _sum([big, -big / 4], dtype).ambiguous


def test_an_integer_sum_whose_partial_sums_may_overflow_is_ambiguous() -> None:
    assert _sum([2**30, 2**30, -(2**30)], "int32").ambiguous
    assert not _sum([2**30, 2**29, -5], "int32").ambiguous


def test_an_integer_dot_product_that_may_overflow_midway_is_ambiguous() -> None:
    y = _apply("nn.dense", [[2**20, 2**20], [2**20, 5]], [[2**11, -(2**11)]], dtype="int32", units=1)
    np.testing.assert_array_equal(y.ambiguous, [[True], [True]])
    assert not _apply("nn.dense", [[2**20, 2**20]], [[2**9, -(2**9)]], dtype="int32", units=1).ambiguous


def test_maximum_of_nan_is_ambiguous() -> None:
    assert _sum([1.0, np.nan], name="max").ambiguous
    assert not _sum([1.0, np.inf], name="max").ambiguous


def test_product_whose_partial_product_underflows_has_a_bound() -> None:
    """1e-30 * 1e-30 underflows in float32 before 1e30 is multiplied in; another order does not
    underflow."""
    y = _sum([1e-30, 1e-30, 1e30, 1e20], name="prod")
    assert not outside(y, np.array(0.0)) and not outside(y, np.array(1e-10))


def test_dot_product_of_infinity_and_zero_is_nan() -> None:
    y = _apply("nn.dense", [[np.inf, 1.0]], [[0.0, 1.0], [2.0, 1.0]], units=2)
    assert np.isnan(y.value[0, 0]) and y.value[0, 1] == np.inf and not y.ambiguous.any()


def test_infinity_times_an_interval_around_zero_is_ambiguous() -> None:
    w = Bounded(np.array([[1e-9, 1.0]]), np.array([[1e-8, 0.0]]), np.zeros((1, 2), bool), "float32")
    y = KERNELS["nn.dense"]([exact(np.array([[np.inf, 1.0]], "float32")), w], {"units": 1})
    assert isinstance(y, Bounded) and y.ambiguous.all()


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("sqrt", [(-1e-9, 1e-8)]),
        ("log", [(-1e-9, 1e-8)]),
        ("multiply", [(0.0, 1e-9), (np.inf, 0.0)]),
        ("divide", [(0.0, 1e-9), (0.0, 0.0)]),
    ],
)
def test_nan_that_rounding_may_avoid_is_ambiguous(name: str, operands: Any) -> None:
    values = [Bounded(np.array(v), np.array(e), np.array(False), "float32") for v, e in operands]
    y = KERNELS[name](values, {})
    assert isinstance(y, Bounded) and y.ambiguous
    sure = _apply(name, *(v for v, _ in operands))
    assert np.isnan(sure.value) and not sure.ambiguous


def test_infinity_times_a_number_is_infinity() -> None:
    y = _apply("multiply", np.inf, -2.0)
    assert y.value == -np.inf and not y.ambiguous


def test_softmax_of_infinities() -> None:
    y = _apply("nn.softmax", [[-np.inf, 0.0], [np.inf, 0.0], [np.nan, 0.0]], axis=-1)
    np.testing.assert_array_equal(y.value[0], [0.0, 1.0])
    assert np.isnan(y.value[1:]).all() and not y.ambiguous.any()


def test_softmax_of_distant_values() -> None:
    """exp underflows in the dtype: 0 and a subnormal number are both right."""
    y = _apply("nn.softmax", [0.0, -100.0, -1000.0], axis=0)
    assert not outside(y, np.array([1.0, 0.0, 0.0])).any()
    assert y.error.max() < 1e-5


@pytest.mark.parametrize(
    ("value", "error", "ambiguous"),
    [
        (2.5, 0.1, False),
        (2.5, 0.6, True),
        (-0.5, 0.4, False),
        (3e9, 0.0, True),
        (math.nan, 0.0, True),
        (math.inf, 0.0, True),
    ],
)
def test_cast_to_integer(value: float, error: float, ambiguous: bool) -> None:
    """Rounds towards zero; ambiguous across an integer, outside the type and for NaN."""
    x = Bounded(np.array(value), np.array(error), np.array(False), "float32")
    y = KERNELS["cast"]([x], {"dtype": "int32"})
    assert isinstance(y, Bounded) and y.ambiguous == ambiguous
    assert ambiguous or y.value == math.trunc(value)


def test_cast_to_a_narrower_type() -> None:
    x = exact(np.array([0.5, 0.1, 1e6, 65504.0], "float32"))
    y = KERNELS["cast"]([x], {"dtype": "float16"})
    assert isinstance(y, Bounded)
    assert y.error[0] == 0 and 0 < y.error[1] <= 2**-11 * 0.11 + 2**-14
    assert y.value[2] == np.inf and not y.ambiguous.any()


def test_count_include_pad_counts_padding_in_the_average() -> None:
    """A corner window of ones has one of its four taps in the image: the average is 1 of 1, or 1 of
    4."""
    attrs: dict[str, Any] = {"layout": "NCHW", "pool_size": (2, 2), "strides": (2, 2), "dilation": (1, 1)}
    attrs.update(padding=(1, 1, 0, 0), ceil_mode=True)
    x = np.ones((1, 1, 4, 4))
    for counted, corner in ((False, 1.0), (True, 0.25)):
        y = _apply("nn.avg_pool2d", x, count_include_pad=counted, **attrs)
        # Neither counts the elements that ceil_mode adds at the end: two rows of the last window.
        assert y.value[0, 0, 0, 0] == corner and y.value[0, 0, 2, 2] == 1.0


# --- bounded ---------------------------------------------------------------------------------


@np.errstate(all="ignore")
def test_gamma_is_infinite_without_precision_left_in_the_dtype() -> None:
    assert gamma(3, 2.0**-11) == pytest.approx(3 * 2.0**-11, rel=2e-3)
    assert gamma(2048, 2.0**-11) == np.inf
    assert accumulated(np.ones(1), np.ones(1), 0.0, 2048, False, "float16").ambiguous.all()


@np.errstate(all="ignore")
def test_rounded_at_the_edge_of_the_dtype() -> None:
    y = rounded(np.array([65504.0, 66000.0, 1e9, np.inf]), 0.0, False, "float16")
    np.testing.assert_array_equal(y.ambiguous, [True, False, False, False])
    np.testing.assert_array_equal(y.value[1:], np.inf)


def test_an_integer_outside_its_dtype_is_ambiguous() -> None:
    y = integer(np.array([2**31 - 1, 2**31, -(2**31)]), False, "int32")
    np.testing.assert_array_equal(y.ambiguous, [False, True, False])


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_maximum_of_no_elements_is_ambiguous(name: str) -> None:
    empty = exact(np.zeros((3, 0), "float32"))
    extreme = KERNELS[name]([empty], {"axis": (1,), "keepdims": False, "exclude": False})
    assert isinstance(extreme, Bounded)
    assert extreme.shape == (3,) and extreme.ambiguous.all()


def test_exponentials_below_twice_the_smallest_normal_number_may_be_flushed() -> None:
    for name, argument in (("sigmoid", -87.0), ("exp", -87.0)):
        (y,) = (KERNELS[name]([exact(np.array([argument, -86.0], "float32"))], {}),)
        assert isinstance(y, Bounded)
        assert y.value[0] <= y.error[0] and y.value[1] > y.error[1]
        (half,) = (KERNELS[name]([exact(np.array([-9.0], "float16"))], {}),)
        assert isinstance(half, Bounded) and half.value[0] > half.error[0]
