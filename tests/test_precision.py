"""Tests that arithmetic simulated in NumPy is inside the bound widened for declared precision, but
not inside the normal bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.generation import data
from pytest_byoc.generation.builder import Builder
from pytest_byoc.oracle import evaluation
from pytest_byoc.reference_kernels import FULL, Bounded, Precision, apply, exact
from pytest_byoc.worker.declared_precision import PrecisionError, declared, in_words

from .plain import ORDERS, Sum, plain
from .test_kernels import Case

HALF = Precision(**declared({"accumulate_dtype": "float16"}))
#: By the dtype that operands are rounded to: bits of the significand, least exponent of normal
#: numbers.
ROUNDED = {"tfloat32": (11, -126), "bfloat16": (8, -126), "float16": (11, -14)}
CONTRACTIONS = (
    *("nn.dense", "nn.matmul", "nn.batch_matmul", "matmul", "nn.conv1d", "nn.conv2d", "nn.conv3d"),
    *("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose", "nn.conv2d_backward_weight"),
)
SUMS = (
    *CONTRACTIONS,
    *("einsum", "nn.deformable_conv2d", "nn.attention", "nn.attention_bias"),
    *("sum", "mean", "variance", "std", "logsumexp", "cumsum", "collapse_sum_like", "collapse_sum_to"),
    *("nn.softmax", "nn.log_softmax", "nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"),
    *("nn.global_avg_pool2d", "nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "nn.adaptive_avg_pool3d"),
    *("nn.layer_norm", "nn.group_norm", "nn.instance_norm", "nn.rms_norm", "nn.l2_normalize", "nn.lrn"),
    *("nn.nll_loss", "nn.cross_entropy", "nn.cross_entropy_with_logits"),
)


# --- the arithmetic of a target, simulated --------------------------------------------------------


def fused(terms: np.ndarray) -> np.ndarray:
    """Adds each unrounded term to a float16 sum: a fused multiply-add."""
    total = np.zeros(terms.shape[:-1], np.float16)
    for i in range(terms.shape[-1]):
        total = (total + terms[..., i].astype(np.float64)).astype(np.float16)
    return total


def in_half(order: Sum) -> Sum:
    """Returns a sum of float32 terms that rounds each term, and each partial sum, to float16."""

    def add(terms: np.ndarray) -> np.ndarray:
        if terms.dtype != np.float32:
            return order(terms)
        return (fused(terms) if order is fused else order(terms.astype(np.float16))).astype(np.float32)

    return add


def round_to(x: np.ndarray, kind: str) -> np.ndarray:
    """Rounds float32 numbers to nearest, ties to even; subnormals lose bits accordingly."""
    bits, least = ROUNDED[kind]
    step = np.maximum(np.frexp(x.astype(np.float64))[1], least + 1) - bits
    return np.ldexp(np.rint(np.ldexp(x.astype(np.float64), -step)), step).astype(np.float32)


def without_subnormals(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, x.dtype.type(0), x) if x.dtype.kind == "f" else x


class Comparison:
    """Simulated results against their bounds: counts, and the ratio of the bound to the worst
    error."""

    def __init__(self) -> None:
        self.inside = self.needed = 0
        self.ratios: list[float] = []

    def add(self, narrow: Bounded, wide: Bounded, found: np.ndarray) -> None:
        if wide.dtype not in ("float32", "float16"):
            return
        with np.errstate(all="ignore"):
            distance = np.abs(found.astype(np.float64) - wide.value)
            distance = np.where(np.isnan(distance) & ~np.isfinite(wide.value), 0.0, distance)
        judged = ~wide.ambiguous
        outside = judged & ~(distance <= wide.error)
        assert not outside.any(), (found[outside], wide.value[outside], wide.error[outside])
        self.inside += int(judged.sum())
        self.needed += int((judged & (distance > narrow.error)).sum())
        worst = np.max(distance, where=judged, initial=0.0)
        if worst > np.max(narrow.error, where=judged, initial=0.0):
            self.ratios.append(float(np.max(wide.error, where=judged, initial=0.0) / worst))


def compared(
    name: str, arrays: list[np.ndarray], attrs: Any, precision: Precision, results: Any, seen: Comparison
) -> None:
    operands = [exact(a) for a in arrays]
    for narrow, wide, y in zip(
        apply(name, operands, attrs), apply(name, operands, attrs, precision), results, strict=True
    ):
        seen.add(narrow, wide, y)


def has_nothing_to_sum(case: Case) -> bool:
    return case.name.startswith("collapse") and case.plain()[0].shape == case.arrays[0].shape


# --- sums in float16 ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SUMS)
def test_sums_in_half_precision_are_inside_the_widened_bound(name: str) -> None:
    """Sums have any order, fused or not, on the record's own data. In the median, the bound is less
    than 100 times the worst error of a case."""
    seen = Comparison()
    for seed in range(12):
        case = Case(name, "float32", seed)
        if has_nothing_to_sum(case):
            continue
        for order in (*ORDERS.values(), fused):
            with np.errstate(all="ignore"):
                results = case.plain(add=in_half(order))
            compared(name, case.arrays, case.attrs, HALF, results, seen)
    assert seen.inside and seen.needed
    assert 1 <= np.median(seen.ratios) < 100


def adversarial(n: int) -> np.ndarray:
    """Returns 1, then numbers that a float16 sum of at least 1 loses one by one (a tie to even)."""
    return np.array([1.0] + [2.0**-11] * (n - 1), np.float32)


ADVERSARIAL: dict[str, tuple[Callable[[np.ndarray], list[np.ndarray]], dict[str, Any]]] = {
    "nn.dense": (lambda v: [v[None], np.ones((1, len(v)), "float32")], {"units": 1, "out_dtype": "float32"}),
    "nn.batch_matmul": (
        lambda v: [v[None, None], np.ones((1, 1, len(v)), "float32")],
        {"transpose_a": False, "transpose_b": True, "out_dtype": "float32"},
    ),
    "nn.conv2d": (
        lambda v: [v.reshape(1, len(v), 1, 1), np.ones((1, len(v), 1, 1), "float32")],
        {
            "strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1, "channels": 1,
            "kernel_size": (1, 1), "data_layout": "NCHW", "kernel_layout": "OIHW", "out_dtype": "float32",
        },
    ),
    "sum": (lambda v: [v], {"axis": None, "keepdims": False, "exclude": False}),
    "mean": (lambda v: [v], {"axis": None, "keepdims": False, "exclude": False}),
    "nn.global_avg_pool2d": (lambda v: [v.reshape(1, 1, 1, -1)], {"layout": "NCHW"}),
    # exp(x - max) is 1, or nearly 2^-11.
    "nn.softmax": (lambda v: [np.log(v).astype("float32")], {"axis": 0}),
    "nn.layer_norm": (
        lambda v: [v[None], np.ones(len(v), "float32"), np.zeros(len(v), "float32")],
        {"axes": (-1,), "epsilon": 1e-5, "center": True, "scale": True},
    ),
}
#: Limit of the ratio of the bound to the worst error where all roundings have one direction: mean
#: and variance of layer_norm have separate bounds, for two algorithms.
TIGHT = {"nn.layer_norm": 40.0}


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("n", [16, 200])
def test_bounds_of_sums_are_tight_where_all_roundings_have_one_direction(name: str, n: int) -> None:
    make, attrs = ADVERSARIAL[name]
    arrays, seen = make(adversarial(n)), Comparison()
    for order in (ORDERS["forwards"], fused):
        compared(name, arrays, attrs, HALF, plain(name, arrays, attrs, in_half(order)), seen)
    assert seen.needed and seen.ratios and max(seen.ratios) < TIGHT.get(name, 3.0)


def test_products_of_float16_operands_summed_in_float16() -> None:
    """The operands are float16 and the sum is float32."""
    attrs = {"units": 3, "out_dtype": "float32"}
    numbers = np.random.default_rng(1)
    arrays = [numbers.uniform(-2, 2, s).astype("float16") for s in ((5, 60), (3, 60))]
    seen = Comparison()
    for order in (*ORDERS.values(), fused):
        terms = arrays[0].astype(np.float32)[:, None] * arrays[1].astype(np.float32)[None]
        compared("nn.dense", arrays, attrs, HALF, [in_half(order)(terms)], seen)
    assert seen.needed
    only = Precision(accumulate_dtype={"float32": "float16"})
    operands = [exact(a) for a in arrays]
    (y,), (unmoved,) = apply("nn.dense", operands, attrs), apply("nn.dense", operands, attrs, only)
    np.testing.assert_array_equal(y.error, unmoved.error)


@pytest.mark.parametrize(
    ("name", "x", "ambiguous"),
    [
        # 70000 fits only float32; 30000 - 20000 fits float16 in any order.
        ("sum", [35000.0, 35000.0, -35000.0], True),
        ("sum", [30000.0, -20000.0], False),
        ("mean", [65000.0, 65000.0], True),
    ],
)
def test_sums_that_may_overflow_float16_are_ambiguous(name: str, x: list[float], ambiguous: bool) -> None:
    attrs = {"axis": None, "keepdims": False, "exclude": False}
    (y,) = apply(name, [exact(np.array(x, "float32"))], attrs, HALF)
    assert y.ambiguous == ambiguous
    assert not apply(name, [exact(np.array(x, "float32"))], attrs)[0].ambiguous


def test_squares_that_may_overflow_float16_are_ambiguous() -> None:
    x = np.linspace(-300, 300, 16, dtype="float32")[None]
    arrays = [x, np.ones(16, "float32"), np.zeros(16, "float32")]
    attrs = {"axes": (-1,), "epsilon": 1e-5, "center": True, "scale": True}
    operands = [exact(a) for a in arrays]
    assert apply("nn.layer_norm", operands, attrs, HALF)[0].ambiguous.all()
    assert not apply("nn.layer_norm", operands, attrs)[0].ambiguous.any()


# --- rounded operands -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ROUNDED)
@pytest.mark.parametrize("name", CONTRACTIONS)
def test_contractions_of_rounded_operands_are_inside_the_widened_bound(name: str, kind: str) -> None:
    seen, precision = Comparison(), Precision(**declared({"contraction_dtype": kind}))
    for seed in range(12):
        case = Case(name, "float32", seed)
        arrays = [round_to(a, kind) for a in case.arrays[:2]] + case.arrays[2:]
        for order in ORDERS.values():
            results = case.plain(arrays, order)
            compared(name, case.arrays, case.attrs, precision, results, seen)
    assert seen.inside and seen.needed
    assert 1 <= np.median(seen.ratios) < 100


@pytest.mark.parametrize("kind", ROUNDED)
def test_the_bound_is_tight_where_all_operands_round_down(kind: str) -> None:
    """1 + u, a tie, becomes 1: each product is off by 2 u, and so is the bound."""
    v = np.full(50, 1 + 2.0 ** -ROUNDED[kind][0], np.float32)
    attrs = ADVERSARIAL["nn.dense"][1]
    arrays, seen = [v[None], v[None]], Comparison()
    rounded = [round_to(a, kind) for a in arrays]
    assert (rounded[0] == 1).all()
    precision = Precision(contraction_dtype=kind)
    compared("nn.dense", arrays, attrs, precision, plain("nn.dense", rounded, attrs), seen)
    assert seen.needed and max(seen.ratios) < 1.1


def test_operands_exact_in_the_dtype_do_not_widen_the_bound() -> None:
    attrs = {"units": 1, "out_dtype": "float32"}
    exact_operands = [exact(np.array([[0.25, -3.0, 0.0, 1 + 2.0**-7]], "float32"))] * 2
    for kind in ROUNDED:
        (y,) = apply("nn.dense", exact_operands, attrs, Precision(contraction_dtype=kind))
        np.testing.assert_array_equal(y.error, apply("nn.dense", exact_operands, attrs)[0].error)


def test_operands_outside_the_range_of_float16_are_ambiguous() -> None:
    x, w = (exact(np.array([v], "float32")) for v in ([7e4, 1.0], [1.0, 1.0]))
    attrs = {"units": 1, "out_dtype": "float32"}
    assert apply("nn.dense", [x, w], attrs, Precision(contraction_dtype="float16"))[0].ambiguous.all()
    assert not apply("nn.dense", [x, w], attrs, Precision(contraction_dtype="bfloat16"))[0].ambiguous.any()


def test_contraction_dtype_applies_only_to_float32_contractions() -> None:
    precision = Precision(contraction_dtype="bfloat16")
    for name, dtype in (("nn.dense", "float64"), ("nn.dense", "float16"), ("multiply", "float32")):
        case = Case(name, dtype, 3)
        operands = [exact(a) for a in case.arrays]
        for y, same in zip(apply(name, operands, case.attrs), apply(name, operands, case.attrs, precision)):
            np.testing.assert_array_equal(y.error, same.error)


def test_rounding_errors_of_operands_and_of_their_sum_add_up() -> None:
    precision = Precision(**declared({"contraction_dtype": "float16", "accumulate_dtype": "float16"}))
    seen = Comparison()
    for seed in range(12):
        case = Case("nn.dense", "float32", seed)
        arrays = [round_to(a, "float16") for a in case.arrays]
        results = case.plain(arrays, in_half(fused))
        compared("nn.dense", case.arrays, case.attrs, precision, results, seen)
    assert seen.needed


# --- subnormals -----------------------------------------------------------------------------------

FLUSHING = Precision(flush_subnormals=True)


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        ("nn.relu", {}),
        ("negative", {}),
        ("add", {}),
        ("multiply", {}),
        ("maximum", {}),
        ("divide", {}),
        ("sqrt", {}),
        ("transpose", {"axes": None}),
        ("sum", {"axis": (1,), "keepdims": False, "exclude": False}),
        ("nn.dense", {"units": 8, "out_dtype": "float32"}),
        ("nn.softmax", {"axis": -1}),
    ],
)
def test_flushed_operands_and_results_are_inside_the_widened_bound(name: str, attrs: dict[str, Any]) -> None:
    """Subnormals are replaced by zero before and after the operator. Arithmetic may flush its
    operands anyway; the bound of pure data movement must be widened."""
    numbers, tiny = np.random.default_rng(2), float(np.finfo("float32").tiny)
    seen = Comparison()
    for size in (tiny, 1e3 * tiny, tiny**0.5, 1.0):
        count = 2 if name in ("add", "multiply", "maximum", "divide", "nn.dense") else 1
        arrays = [(numbers.uniform(0.01, 2, (8, 8)) * size).astype("float32") for _ in range(count)]
        with np.errstate(all="ignore"):
            results = plain(name, [without_subnormals(a) for a in arrays], attrs)
            results = tuple(without_subnormals(y) for y in results)
        compared(name, arrays, attrs, FLUSHING, results, seen)
    assert seen.inside
    if name == "transpose":
        assert seen.needed


def test_a_quotient_with_a_subnormal_divisor_is_ambiguous() -> None:
    """With or without the declaration, the quotient is unknown."""
    operands = [exact(np.float32(1)), exact(np.float32(5e-39))]
    assert apply("divide", operands, {})[0].ambiguous
    assert apply("divide", operands, {}, FLUSHING)[0].ambiguous


def test_normal_numbers_are_not_flushed() -> None:
    x = [exact(np.array([1.0, 2e-38, 0.0, -3.0], "float32"))]
    assert not apply("nn.relu", x, {}, FLUSHING)[0].error.any()


def test_terms_that_are_subnormal_in_the_accumulator() -> None:
    """Products below 2^-14 lose digits, or are flushed: the sum is off by 2^-25 or 2^-14 for
    each."""
    attrs = {"axis": None, "keepdims": False, "exclude": False}
    x = np.full(100, 2.0**-15 * 1.37, np.float32)
    for precision, flushed in ((HALF, False), (Precision(**{**vars(HALF), "flush_subnormals": True}), True)):
        (y,) = apply("sum", [exact(x)], attrs, precision)
        actual = 0.0 if flushed else float(in_half(fused)(x))
        assert abs(actual - y.value) <= y.error
        assert (y.error > y.value) == flushed


# --- functions ------------------------------------------------------------------------------------


def test_declared_ulps_widen_the_bound_of_a_function() -> None:
    x = [exact(np.array([0.5, 1.5], "float32"))]
    (full,), (less,) = apply("exp", x, {}), apply("exp", x, {}, Precision(function_ulps={"exp": 100.0}))
    ulp = 2.0**-23 * full.value
    np.testing.assert_allclose(less.error - full.error, 100 * ulp, rtol=1e-4)
    (other,) = apply("tanh", x, {}, Precision(function_ulps={"exp": 100.0}))
    np.testing.assert_array_equal(other.error, apply("tanh", x, {})[0].error)


def test_a_declared_absolute_error_widens_the_bound_of_a_function() -> None:
    x = [exact(np.array([-20.0, 0.5, np.inf, np.nan], "float32"))]
    (full,), (less,) = apply("exp", x, {}), apply("exp", x, {}, Precision(function_errors={"exp": 1e-3}))
    np.testing.assert_allclose((less.error - full.error)[:2], 1e-3, rtol=1e-4)
    np.testing.assert_array_equal(less.error[2:], full.error[2:])
    assert not less.ambiguous.any()


def test_declared_steps_widen_the_bound_of_integers() -> None:
    x = [exact(np.array([300, -7], "int32")), *(exact(np.array(v)) for v in (np.float32(0.01), np.int32(0)))]
    x += [exact(np.array(v)) for v in (np.float32(0.02), np.int32(0))]
    attrs = {"axis": -1, "rounding": "UPWARD", "compute_dtype": "None", "out_dtype": "int8"}
    precision = Precision(**declared({"function_errors": {"qnn.requantize": 1}}))
    (full,), (less,) = apply("qnn.requantize", x, attrs), apply("qnn.requantize", x, attrs, precision)
    np.testing.assert_array_equal(less.value, full.value)
    np.testing.assert_array_equal(less.error, full.error + 1)


# --- graphs ---------------------------------------------------------------------------------------


def arrays_of(graph: Graph) -> dict[str, np.ndarray]:
    return {**data.inputs(graph, 0), **data.constants(graph)}


def biased(n: int, bias: float) -> Graph:
    """Returns a dense layer whose bias is much larger than its sum."""
    b = Builder(seed=5)
    x = b.input(TensorType((16, n), "float32"))
    w = b.constant(TensorType((4, n), "float32"))
    y = b.node("nn.dense", (x, w), {"units": 4, "out_dtype": "float32"})[0]
    c = b.constant(TensorType((4,), "float32"), bias, bias * 1.01)
    return b.graph(b.node("nn.bias_add", (y, c), {"axis": 1})[0])


def test_only_bounds_of_offloaded_nodes_are_widened() -> None:
    graph = biased(40, 1.0)
    arrays = arrays_of(graph)
    narrow, none, both, dense, bias = (
        evaluation.evaluate(graph, arrays, p, offloaded)[0].error
        for p, offloaded in (
            (FULL, None), (HALF, (False, False)), (HALF, None), (HALF, (True, False)), (HALF, (False, True))
        )
    )
    np.testing.assert_array_equal(narrow, none)
    np.testing.assert_array_equal(narrow, bias)
    assert (dense > 100 * narrow).all() and (both > dense).all()


def test_the_bound_covers_a_bias_added_in_the_accumulator() -> None:
    """With the bias in the accumulator every partial sum is rounded: the error exceeds the bound of
    the sum without it."""
    graph = biased(40, 500.0)
    a = arrays_of(graph)
    x, w, c = (a[s.name] for s in graph.sources())
    terms = x[:, None] * w[None]
    first = np.broadcast_to(c, (16, 4))[..., None]
    for sequence in (np.concatenate([first, terms], -1), np.concatenate([terms, first], -1)):
        for order in (ORDERS["forwards"], ORDERS["by_halves"], fused):
            actual = in_half(order)(sequence.astype(np.float32))
            (wide,) = evaluation.evaluate(graph, a, HALF)
            assert (np.abs(actual - wide.value) <= wide.error).all()
    (apart,) = evaluation.evaluate(graph, a, HALF, (True, False))
    actual = in_half(ORDERS["forwards"])(np.concatenate([first, terms], -1).astype(np.float32))
    assert (np.abs(actual - apart.value) > apart.error).any()
    assert (wide.error < 100 * np.abs(actual - wide.value).max()).all()


def test_a_residual_that_overflows_the_accumulator_is_ambiguous() -> None:
    graph = biased(40, 65500.0)
    (y,) = evaluation.evaluate(graph, arrays_of(graph), HALF)
    assert y.ambiguous.all()


# --- declarations ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accumulate_dtype": "float8"}, "accumulate_dtype must be float16 or bfloat16, .*found 'float8'"),
        ({"accumulate_dtype": {"float64": "float16"}}, r"of what is summed \(float16, bfloat16, float32\)"),
        ({"accumulate_dtype": 16}, "accumulate_dtype must be .*found 16"),
        ({"contraction_dtype": "tf32"}, "must be one of tfloat32, bfloat16, float16; found 'tf32'"),
        ({"flush_subnormals": "yes"}, "flush_subnormals must be true or false, found 'yes'"),
        ({"function_ulps": {"nn": {"softmax": 3}}}, "the accuracy of 'nn' cannot be declared.*quoted"),
        ({"function_ulps": {"exp": "low"}}, "exp must be a number of ulps, found 'low'"),
        ({"function_ulps": {"exp": float("nan")}}, "exp must be a number of ulps, found nan"),
        ({"function_ulps": 3}, "function_ulps must be a table of numbers by operator, found 3"),
        ({"function_errors": {"relu": 1e-3}}, "function_errors: the accuracy of 'relu' cannot be declared"),
        ({"function_ulps": {"qnn.add": 1}}, "function_ulps: the accuracy of 'qnn.add' cannot be declared"),
        ({"function_errors": {"exp": -1}}, "function_errors: exp must be a number like 1e-4, found -1"),
    ],
)
def test_invalid_declarations_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PrecisionError, match=message):
        declared(options)


def test_no_declaration_means_full_precision() -> None:
    assert Precision(**declared({})) == FULL
    assert in_words(declared({})) == ""


def test_declarations_in_words() -> None:
    options = {
        "accumulate_dtype": {"float16": "float16"}, "contraction_dtype": "tfloat32",
        "flush_subnormals": True, "function_ulps": {"nn.softmax": 8}, "function_errors": {"exp": 1e-3},
    }
    assert in_words(declared(options)) == (
        "accumulates float16 in float16; rounds float32 operands of contractions to tfloat32; "
        "flushes subnormals to zero; computes nn.softmax to 8 ulp more; "
        "computes exp to 0.001 more, whatever its size"
    )
