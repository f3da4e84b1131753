"""Declared precision: arithmetic simulated in NumPy is inside the bound widened for it, and needs that."""

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
#: By the dtype operands are rounded to: bits of its significand, the least exponent of its normal numbers.
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
    """In float16, each term added unrounded: a fused multiply-add."""
    total = np.zeros(terms.shape[:-1], np.float16)
    for i in range(terms.shape[-1]):
        total = (total + terms[..., i].astype(np.float64)).astype(np.float16)
    return total


def in_half(order: Sum) -> Sum:
    """A sum of float32 terms that rounds each, and each partial sum, to float16."""

    def add(terms: np.ndarray) -> np.ndarray:
        if terms.dtype != np.float32:
            return order(terms)
        return (fused(terms) if order is fused else order(terms.astype(np.float16))).astype(np.float32)

    return add


def round_to(x: np.ndarray, kind: str) -> np.ndarray:
    """float32 numbers rounded to nearest, ties to even; subnormals with as many bits less."""
    bits, least = ROUNDED[kind]
    step = np.maximum(np.frexp(x.astype(np.float64))[1], least + 1) - bits
    return np.ldexp(np.rint(np.ldexp(x.astype(np.float64), -step)), step).astype(np.float32)


def without_subnormals(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, x.dtype.type(0), x) if x.dtype.kind == "f" else x


class Seen:
    """Simulated results against their bounds: how far the worst is from the value, and from its bound."""

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
    name: str, arrays: list[np.ndarray], attrs: Any, precision: Precision, found: Any, seen: Seen
) -> None:
    operands = [exact(a) for a in arrays]
    for narrow, wide, y in zip(
        apply(name, operands, attrs), apply(name, operands, attrs, precision), found, strict=True
    ):
        seen.add(narrow, wide, y)


def nothing_summed(case: Case) -> bool:
    return case.name.startswith("collapse") and case.plain()[0].shape == case.arrays[0].shape


# --- sums in float16 ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SUMS)
def test_sums_in_half_precision(name: str) -> None:
    """In any order, fused or not, on the record's own data; the bound is at most two orders of
    magnitude above the worst error of an operator's cases, in the median."""
    seen = Seen()
    for seed in range(12):
        case = Case(name, "float32", seed)
        if nothing_summed(case):
            continue
        for order in (*ORDERS.values(), fused):
            with np.errstate(all="ignore"):
                found = case.plain(add=in_half(order))
            compared(name, case.arrays, case.attrs, HALF, found, seen)
    assert seen.inside and seen.needed
    assert 1 <= np.median(seen.ratios) < 100


def adversarial(n: int) -> np.ndarray:
    """1, then numbers that a float16 sum of at least 1 loses one by one (a tie to even)."""
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
    # exp(x - max) are 1 and 2^-11 nearly.
    "nn.softmax": (lambda v: [np.log(v).astype("float32")], {"axis": 0}),
    "nn.layer_norm": (
        lambda v: [v[None], np.ones(len(v), "float32"), np.zeros(len(v), "float32")],
        {"axes": (-1,), "epsilon": 1e-5, "center": True, "scale": True},
    ),
}
#: How many times the worst error the bound is, where every rounding goes the same way: the mean and the
#: variance of layer_norm are bounded apart, and for two ways to compute it.
TIGHT = {"nn.layer_norm": 40.0}


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("n", [16, 200])
def test_sums_whose_every_rounding_goes_the_same_way(name: str, n: int) -> None:
    make, attrs = ADVERSARIAL[name]
    arrays, seen = make(adversarial(n)), Seen()
    for order in (ORDERS["forwards"], fused):
        compared(name, arrays, attrs, HALF, plain(name, arrays, attrs, in_half(order)), seen)
    assert seen.needed and seen.ratios and max(seen.ratios) < TIGHT.get(name, 3.0)


def test_products_of_half_precision_summed_in_it() -> None:
    """float16 operands whose sum is to be float32."""
    attrs = {"units": 3, "out_dtype": "float32"}
    numbers = np.random.default_rng(1)
    arrays = [numbers.uniform(-2, 2, s).astype("float16") for s in ((5, 60), (3, 60))]
    seen = Seen()
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
        # 70000 fits float32 alone; 60000 less 30000 fits, however the sum is made.
        ("sum", [35000.0, 35000.0, -35000.0], True),
        ("sum", [30000.0, -20000.0], False),
        ("mean", [65000.0, 65000.0], True),
    ],
)
def test_sums_that_may_overflow_half_precision(name: str, x: list[float], ambiguous: bool) -> None:
    attrs = {"axis": None, "keepdims": False, "exclude": False}
    (y,) = apply(name, [exact(np.array(x, "float32"))], attrs, HALF)
    assert y.ambiguous == ambiguous
    assert not apply(name, [exact(np.array(x, "float32"))], attrs)[0].ambiguous


def test_squares_that_may_overflow_half_precision() -> None:
    x = np.linspace(-300, 300, 16, dtype="float32")[None]
    arrays = [x, np.ones(16, "float32"), np.zeros(16, "float32")]
    attrs = {"axes": (-1,), "epsilon": 1e-5, "center": True, "scale": True}
    operands = [exact(a) for a in arrays]
    assert apply("nn.layer_norm", operands, attrs, HALF)[0].ambiguous.all()
    assert not apply("nn.layer_norm", operands, attrs)[0].ambiguous.any()


# --- rounded operands -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ROUNDED)
@pytest.mark.parametrize("name", CONTRACTIONS)
def test_contractions_of_rounded_operands(name: str, kind: str) -> None:
    seen, precision = Seen(), Precision(**declared({"contraction_dtype": kind}))
    for seed in range(12):
        case = Case(name, "float32", seed)
        arrays = [round_to(a, kind) for a in case.arrays[:2]] + case.arrays[2:]
        for order in ORDERS.values():
            found = case.plain(arrays, order)
            compared(name, case.arrays, case.attrs, precision, found, seen)
    assert seen.inside and seen.needed
    assert 1 <= np.median(seen.ratios) < 100


@pytest.mark.parametrize("kind", ROUNDED)
def test_operands_whose_every_rounding_goes_the_same_way(kind: str) -> None:
    """1 + u, a tie, becomes 1: products are off by 2 u, and so is the bound."""
    v = np.full(50, 1 + 2.0 ** -ROUNDED[kind][0], np.float32)
    attrs = ADVERSARIAL["nn.dense"][1]
    arrays, seen = [v[None], v[None]], Seen()
    rounded = [round_to(a, kind) for a in arrays]
    assert (rounded[0] == 1).all()
    precision = Precision(contraction_dtype=kind)
    compared("nn.dense", arrays, attrs, precision, plain("nn.dense", rounded, attrs), seen)
    assert seen.needed and max(seen.ratios) < 1.1


def test_operands_that_the_dtype_holds_are_not_rounded() -> None:
    attrs = {"units": 1, "out_dtype": "float32"}
    round_ = [exact(np.array([[0.25, -3.0, 0.0, 1 + 2.0**-7]], "float32"))] * 2
    for kind in ROUNDED:
        (y,) = apply("nn.dense", round_, attrs, Precision(contraction_dtype=kind))
        np.testing.assert_array_equal(y.error, apply("nn.dense", round_, attrs)[0].error)


def test_operands_beyond_half_precision_are_ambiguous() -> None:
    x, w = (exact(np.array([v], "float32")) for v in ([7e4, 1.0], [1.0, 1.0]))
    attrs = {"units": 1, "out_dtype": "float32"}
    assert apply("nn.dense", [x, w], attrs, Precision(contraction_dtype="float16"))[0].ambiguous.all()
    assert not apply("nn.dense", [x, w], attrs, Precision(contraction_dtype="bfloat16"))[0].ambiguous.any()


def test_other_dtypes_and_operators_are_not_contractions_of_float32() -> None:
    precision = Precision(contraction_dtype="bfloat16")
    for name, dtype in (("nn.dense", "float64"), ("nn.dense", "float16"), ("multiply", "float32")):
        case = Case(name, dtype, 3)
        operands = [exact(a) for a in case.arrays]
        for y, same in zip(apply(name, operands, case.attrs), apply(name, operands, case.attrs, precision)):
            np.testing.assert_array_equal(y.error, same.error)


def test_rounding_of_operands_and_of_their_sum_add_up() -> None:
    precision = Precision(**declared({"contraction_dtype": "float16", "accumulate_dtype": "float16"}))
    seen = Seen()
    for seed in range(12):
        case = Case("nn.dense", "float32", seed)
        arrays = [round_to(a, "float16") for a in case.arrays]
        found = case.plain(arrays, in_half(fused))
        compared("nn.dense", case.arrays, case.attrs, precision, found, seen)
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
def test_flushed_operands_and_results(name: str, attrs: dict[str, Any]) -> None:
    """Zero for each subnormal, before and after. Operands that are computed with may be taken for zero
    anyway; the bound of what only moves elements must be widened for it."""
    numbers, tiny = np.random.default_rng(2), float(np.finfo("float32").tiny)
    seen = Seen()
    for size in (tiny, 1e3 * tiny, tiny**0.5, 1.0):
        count = 2 if name in ("add", "multiply", "maximum", "divide", "nn.dense") else 1
        arrays = [(numbers.uniform(0.01, 2, (8, 8)) * size).astype("float32") for _ in range(count)]
        with np.errstate(all="ignore"):
            found = plain(name, [without_subnormals(a) for a in arrays], attrs)
            found = tuple(without_subnormals(y) for y in found)
        compared(name, arrays, attrs, FLUSHING, found, seen)
    assert seen.inside
    if name == "transpose":
        assert seen.needed


def test_a_subnormal_divisor_may_be_zero() -> None:
    """Declared or not: nothing is known of the quotient."""
    operands = [exact(np.float32(1)), exact(np.float32(5e-39))]
    assert apply("divide", operands, {})[0].ambiguous
    assert apply("divide", operands, {}, FLUSHING)[0].ambiguous


def test_normal_numbers_are_not_flushed() -> None:
    x = [exact(np.array([1.0, 2e-38, 0.0, -3.0], "float32"))]
    assert not apply("nn.relu", x, {}, FLUSHING)[0].error.any()


def test_subnormals_of_the_accumulator() -> None:
    """Products below 2^-14 are kept with less digits, or lost: in the sum 2^-25 or 2^-14 for each."""
    attrs = {"axis": None, "keepdims": False, "exclude": False}
    x = np.full(100, 2.0**-15 * 1.37, np.float32)
    for precision, lost in ((HALF, False), (Precision(**{**vars(HALF), "flush_subnormals": True}), True)):
        (y,) = apply("sum", [exact(x)], attrs, precision)
        found = 0.0 if lost else float(in_half(fused)(x))
        assert abs(found - y.value) <= y.error
        assert (y.error > y.value) == lost


# --- functions ------------------------------------------------------------------------------------


def test_functions_of_declared_accuracy() -> None:
    x = [exact(np.array([0.5, 1.5], "float32"))]
    (full,), (less,) = apply("exp", x, {}), apply("exp", x, {}, Precision(function_ulps={"exp": 100.0}))
    ulp = 2.0**-23 * full.value
    np.testing.assert_allclose(less.error - full.error, 100 * ulp, rtol=1e-4)
    (other,) = apply("tanh", x, {}, Precision(function_ulps={"exp": 100.0}))
    np.testing.assert_array_equal(other.error, apply("tanh", x, {})[0].error)


def test_functions_of_declared_absolute_error() -> None:
    x = [exact(np.array([-20.0, 0.5, np.inf, np.nan], "float32"))]
    (full,), (less,) = apply("exp", x, {}), apply("exp", x, {}, Precision(function_errors={"exp": 1e-3}))
    np.testing.assert_allclose((less.error - full.error)[:2], 1e-3, rtol=1e-4)
    np.testing.assert_array_equal(less.error[2:], full.error[2:])
    assert not less.ambiguous.any()


def test_integers_of_declared_steps() -> None:
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
    """A dense layer whose bias is much larger than its sum."""
    b = Builder(seed=5)
    x = b.input(TensorType((16, n), "float32"))
    w = b.constant(TensorType((4, n), "float32"))
    y = b.node("nn.dense", (x, w), {"units": 4, "out_dtype": "float32"})[0]
    c = b.constant(TensorType((4,), "float32"), bias, bias * 1.01)
    return b.graph(b.node("nn.bias_add", (y, c), {"axis": 1})[0])


def test_only_nodes_of_the_target_are_widened() -> None:
    graph = biased(40, 1.0)
    arrays = arrays_of(graph)
    narrow, none, both, dense, bias = (
        evaluation.evaluate(graph, arrays, p, taken)[0].error
        for p, taken in (
            (FULL, None), (HALF, (False, False)), (HALF, None), (HALF, (True, False)), (HALF, (False, True))
        )
    )
    np.testing.assert_array_equal(narrow, none)
    np.testing.assert_array_equal(narrow, bias)
    assert (dense > 100 * narrow).all() and (both > dense).all()


def test_a_bias_added_in_the_accumulator() -> None:
    """Every partial sum is rounded with the bias in it: far outside of what the sum alone may be off."""
    graph = biased(40, 500.0)
    a = arrays_of(graph)
    x, w, c = (a[s.name] for s in graph.sources())
    terms = x[:, None] * w[None]
    first = np.broadcast_to(c, (16, 4))[..., None]
    for sequence in (np.concatenate([first, terms], -1), np.concatenate([terms, first], -1)):
        for order in (ORDERS["forwards"], ORDERS["by_halves"], fused):
            found = in_half(order)(sequence.astype(np.float32))
            (wide,) = evaluation.evaluate(graph, a, HALF)
            assert (np.abs(found - wide.value) <= wide.error).all()
    (apart,) = evaluation.evaluate(graph, a, HALF, (True, False))
    found = in_half(ORDERS["forwards"])(np.concatenate([first, terms], -1).astype(np.float32))
    assert (np.abs(found - apart.value) > apart.error).any()
    assert (wide.error < 100 * np.abs(found - wide.value).max()).all()


def test_a_residual_that_overflows_the_accumulator_is_ambiguous() -> None:
    graph = biased(40, 65500.0)
    (y,) = evaluation.evaluate(graph, arrays_of(graph), HALF)
    assert y.ambiguous.all()


# --- what can be declared -------------------------------------------------------------------------


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
def test_declarations_that_mean_nothing(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PrecisionError, match=message):
        declared(options)


def test_nothing_declared_is_full_precision() -> None:
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
