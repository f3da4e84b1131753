"""Tests of quantised operators: against ONNX's reference evaluator, and with errors of their
integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from pytest_byoc.core.graph import TensorType
from pytest_byoc.evidence.comparison import compare
from pytest_byoc.generation import data
from pytest_byoc.generation.builder import Builder, choose_parameters, first
from pytest_byoc.generation.systematic import cases
from pytest_byoc.operators import OPERATORS
from pytest_byoc.oracle import evaluation
from pytest_byoc.reference_kernels import KERNELS, Bounded, exact
from pytest_byoc.reference_kernels.quantized import Steps


def kernel(name: str, operands: list[Any], **attrs: Any) -> Bounded:
    inputs = [o if isinstance(o, Bounded) else exact(np.asarray(o)) for o in operands]
    y = KERNELS[name](inputs, attrs)
    assert isinstance(y, Bounded)
    return y


def outside(y: Bounded, actual: np.ndarray) -> int:
    assert str(actual.dtype) == y.dtype and actual.shape == y.shape
    return int(compare(actual, y).outside.sum())


def by_onnx(op: str, inputs: list[np.ndarray], dtype: str, **attrs: Any) -> np.ndarray:
    """Evaluates one ONNX node and returns its output."""
    names = [f"i{i}" for i in range(len(inputs))]
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attrs)],
        "g",
        [],
        [helper.make_tensor_value_info("y", element, ())],
        [numpy_helper.from_array(v, n) for n, v in zip(names, inputs)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    (y,) = ReferenceEvaluator(model).run(None, {})
    assert isinstance(y, np.ndarray)
    return y


def f32(value: Any) -> np.ndarray:
    return np.asarray(value, np.float32)


def i32(value: Any) -> np.ndarray:
    return np.asarray(value, np.int32)


def numbers(dtype: str, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.random.default_rng(4).integers(info.min, info.max, shape, endpoint=True).astype(dtype)


# --- against ONNX --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_quantize_and_dequantize_agree_with_onnx(dtype: str, axis: int | None) -> None:
    x = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32) * 4
    n = () if axis is None else (x.shape[axis],)
    s = f32(np.broadcast_to(0.0371, n) * (1 + np.arange(n[0]) if n else 1))
    z = np.full(n, 7, dtype)
    along = {} if axis is None else {"axis": axis}
    expected = by_onnx("QuantizeLinear", [x, s, z], dtype, **along)
    y = kernel("qnn.quantize", [x, s, i32(z)], **{"axis": -1, **along}, out_dtype=dtype)
    assert not outside(y, expected)
    # The result is dequantised again.
    restored = by_onnx("DequantizeLinear", [expected, s, z], "float32", **along)
    back = kernel("qnn.dequantize", [expected, s, i32(z)], **{"axis": -1, **along}, out_dtype="float32")
    assert not outside(back, restored)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_conv2d_and_requantize_agree_with_qlinearconv(dtype: str) -> None:
    x, w = numbers(dtype, 2, 4, 7, 6), numbers("int8", 6, 2, 3, 2)
    zx, zw, zy = np.array(9, dtype), np.array(-3, "int8"), np.array(40, dtype)
    sx, sw, sy = f32(0.0371), f32(0.0173), f32(0.531)
    expected = by_onnx(
        "QLinearConv", [x, sx, zx, w, sw, zw, sy, zy], dtype,
        pads=[1, 0, 2, 1], strides=[2, 1], dilations=[1, 2], group=2,
    )
    sums = kernel(
        "qnn.conv2d", [x, w, i32(zx), i32(zw), sx, sw], data_layout="NCHW", kernel_layout="OIHW", groups=2,
        channels=6, kernel_size=(3, 2), padding=(1, 0, 2, 1), strides=(2, 1), dilation=(1, 2),
    )
    assert sums.dtype == "int32" and not sums.error.any()
    y = kernel(
        "qnn.requantize", [sums, f32(sx * sw), i32(0), sy, i32(zy)],
        axis=1, rounding="None", compute_dtype="None", out_dtype=dtype,
    )
    assert not outside(y, expected) and len(np.unique(expected)) > 50


def test_dense_agrees_with_matmulinteger() -> None:
    x, w = numbers("uint8", 5, 8), numbers("int8", 3, 8)
    zx, zw = np.array(255, "uint8"), np.array(-128, "int8")
    expected = by_onnx("MatMulInteger", [x, np.ascontiguousarray(w.T), zx, zw], "int32")
    y = kernel("qnn.dense", [x, w, i32(zx), i32(zw), f32(1), f32(1)], units=3)
    np.testing.assert_array_equal(y.value, expected)
    assert not y.error.any() and not y.ambiguous.any()


# --- rounding ------------------------------------------------------------------------------------


def requantized(q: Any, scale: Any, over: Any, rounding: str, dtype: str = "int8", zero: int = 0) -> Bounded:
    return kernel(
        "qnn.requantize", [np.asarray(q, np.int32), f32(scale), i32(zero), f32(over), i32(0)],
        axis=-1, rounding=rounding, compute_dtype="None", out_dtype=dtype,
    )


@pytest.mark.parametrize(
    ("rounding", "expected"), [("UPWARD", [-2, -1, 0, 1, 2, 3]), ("TONEAREST", [-3, -2, -1, 1, 2, 3])]
)
def test_a_named_rounding_decides_ties(rounding: str, expected: list[int]) -> None:
    y = requantized([-5, -3, -1, 1, 3, 5], 0.25, 0.5, rounding)
    np.testing.assert_array_equal(y.value, expected)
    assert not y.error.any()


def test_rounding_away_from_zero_is_open_where_the_sign_changes() -> None:
    """For 2.5 - 78, TVM's integer arithmetic computes 3 - 78, its float arithmetic round(-75.5)."""
    operands = [i32([10, -10]), f32(0.25), i32(0), f32(1.0), i32(-78)]
    y = kernel(
        "qnn.requantize", operands, axis=-1, rounding="TONEAREST", compute_dtype="float32", out_dtype="int8"
    )
    np.testing.assert_array_equal(y.value, [-75, -81])
    np.testing.assert_array_equal(y.error, [1, 0])


def test_an_unnamed_rounding_leaves_only_ties_open() -> None:
    y = requantized([-5, -4, 3, 4], 0.25, 0.5, "None")
    np.testing.assert_array_equal(y.error, [1, 0, 1, 0])
    for values in ([-2, -2, 1, 2], [-3, -2, 2, 2]):
        assert not outside(y, np.array(values, "int8"))
    assert outside(y, np.array([-2, -1, 1, 1], "int8")) == 2


def test_results_saturate() -> None:
    y = requantized([-4000, 4000, 300], 1.0, 1.0, "None")
    np.testing.assert_array_equal(y.value, [-128, 127, 127])
    y = requantized([-4000, 4000], 1.0, 1.0, "None", "uint8")
    np.testing.assert_array_equal(y.value, [0, 255])
    assert not y.error.any()
    x = f32([np.inf, -np.inf, 1e30, np.nan])
    z = kernel("qnn.quantize", [x, f32(0.1), i32(-128)], axis=-1, out_dtype="int8")
    np.testing.assert_array_equal(z.value[:3], [127, -128, 127])
    np.testing.assert_array_equal(z.ambiguous, [False, False, False, True])


def test_an_int32_that_overflows_is_ambiguous() -> None:
    y = requantized([2**31 - 1, 2**30], 1.0, 1.0, "None", "int32", zero=-5)
    np.testing.assert_array_equal(y.ambiguous, [True, False])
    y = requantized([2**30, 5], 4.0, 1.0, "None", "int32")
    np.testing.assert_array_equal(y.ambiguous, [True, False])


def in_float32(q: np.ndarray, scale: np.float32, over: np.float32) -> np.ndarray:
    """Requantises as TVM does with compute_dtype float32."""
    return np.floor(np.float32(float(scale) / float(over)) * q.astype(np.float32) + np.float32(0.5))


def in_fixed_point(q: np.ndarray, scale: np.float32, over: np.float32) -> np.ndarray:
    """Requantises as TVM does with compute_dtype int64: by a multiplier of 31 bits and a shift."""
    significand, exponent = np.frexp(float(scale) / float(over))
    right = 31 - int(exponent)
    return (q.astype(np.int64) * round(significand * 2**31) + 2 ** (right - 1)) >> right


@pytest.mark.parametrize("compute", [in_float32, in_fixed_point])
def test_float_and_fixed_point_requantisation_are_inside_the_bound(compute: Any) -> None:
    draw = np.random.default_rng(2)
    open_ = total = 0
    for power in range(400):
        scale, over = f32(draw.uniform(1e-4, 1e-2)), f32(draw.uniform(0.02, 1.5))
        if power % 4 == 0:
            scale = f32(over * 2.0 ** -(power % 7))
        q = draw.integers(-60000, 60000, 200).astype(np.int32)
        for rounding in ("UPWARD", "None"):
            y = requantized(q, scale, over, rounding, "int16")
            actual = np.clip(compute(q, scale[()], over[()]), -32768, 32767).astype(np.int16)
            assert not outside(y, actual), (scale, over, rounding)
        if power % 4:
            open_ += int((y.error > 0).sum())
            total += q.size
    # Only ties are open.
    assert open_ / total < 0.002


def test_a_sum_may_be_rounded_once_or_twice() -> None:
    a = b = np.array([3, 1, 0], "int8")
    operands = [a, b, f32(0.1), i32(0), f32(0.1), i32(0), f32(1.0), i32(0)]
    y = kernel("qnn.add", operands)
    # 0.3 + 0.3 is 1 if rounded once and 0 if rounded twice; 0.1 + 0.1 is 0 either way.
    np.testing.assert_array_equal(y.value, [0, 0, 0])
    np.testing.assert_array_equal(y.error, [1, 0, 0])


@pytest.mark.parametrize(("label", "other"), [("upward", "TONEAREST"), ("tonearest", "UPWARD")])
def test_systematic_cases_distinguish_the_named_roundings(label: str, other: str) -> None:
    name = f"qnn.requantize[int32-rounding_{label}]"
    (graph,) = (c.graph for c in cases(["qnn.requantize"], "relay") if c.id == name)
    arrays = {**data.inputs(graph, 0), **data.constants(graph)}
    (y,) = evaluation.evaluate(graph, arrays)
    (node,) = graph.nodes
    wrong = kernel(node.op, [arrays[i] for i in node.inputs], **{**node.attrs, "rounding": other})
    assert not y.error.any() and not y.ambiguous.any()
    assert outside(y, wrong.value.astype("int8"))


# --- integers with an error ------------------------------------------------------------------------


def unsure(value: Any, error: Any, dtype: str = "int8") -> Bounded:
    v = np.asarray(value, np.int64)
    return Bounded(v, np.asarray(error, np.float64), np.zeros(v.shape, bool), dtype)


def test_quantised_kernels_propagate_errors_of_integer_operands() -> None:
    x = unsure([10, 10, 20], [0, 1, 2])
    y = kernel("qnn.dequantize", [x, f32(0.5), i32(0)], axis=-1, out_dtype="float32")
    np.testing.assert_allclose(y.error, [0, 0.5, 1.0], atol=1e-5)
    y = kernel(
        "qnn.requantize", [x, f32(0.5), i32(0), f32(0.25), i32(0)],
        axis=-1, rounding="UPWARD", compute_dtype="None", out_dtype="int8",
    )
    assert (y.error >= [0, 2, 4]).all() and (y.error <= [0, 3, 5]).all()
    w = np.array([[1, -2, 3]], "int8")
    zero = i32(0)
    z = kernel("qnn.dense", [x.map(lambda v: v[None]), w, zero, zero, f32(1), f32(1)], units=1)
    assert z.value == 50 and z.error == 8


def test_errors_propagate_through_arithmetic() -> None:
    """Results for every combination of operands within their errors are inside the bound."""
    draw = np.random.default_rng(6)
    fixed = [f32(0.037), i32(3), f32(0.061), i32(-7), f32(0.052), i32(2)]
    for name in ("qnn.add", "qnn.subtract", "qnn.mul"):
        a, b = draw.integers(-40, 40, (2, 50))
        y = kernel(name, [unsure(a, np.ones(50)), unsure(b, np.full(50, 2.0)), *fixed])
        for p in (-1, 0, 1):
            for q in (-2, 0, 2):
                result = kernel(name, [(a + p).astype("int8"), (b + q).astype("int8"), *fixed])
                assert not outside(y, result.value.astype("int8"))


def test_an_error_of_the_operand_widens_the_quantised_result() -> None:
    x = Bounded(np.array([1.0, 1.0]), np.array([0.0, 0.26]), np.zeros(2, bool), "float32")
    y = kernel("qnn.quantize", [x, f32(0.1), i32(0)], axis=-1, out_dtype="int8")
    np.testing.assert_array_equal(y.value, 10)
    np.testing.assert_array_equal(y.error, [0, 3])


def test_other_operators_treat_an_integer_with_an_error_as_ambiguous() -> None:
    x = unsure([[4, 5]], [[0, 1]])
    np.testing.assert_array_equal(kernel("nn.relu", [x]).ambiguous, [[False, True]])
    assert kernel("nn.dense", [x, np.ones((1, 2), "int8")], units=1).ambiguous.all()
    moved = kernel("transpose", [x], axes=None)
    np.testing.assert_array_equal(moved.error, [[0], [1]])
    assert not moved.ambiguous.any()


def test_integers_are_compared_within_their_error() -> None:
    y = unsure([5, 5, 5, 100], [0, 1, 1, 0])
    np.testing.assert_array_equal(
        compare(np.array([6, 6, 7, 100], "int8"), y).outside, [True, False, True, False]
    )
    vacuous = unsure([3, 0], [200, 0])
    np.testing.assert_array_equal(compare(np.array([90, 0], "int8"), vacuous).judged, [False, True])


def test_quantised_nan_is_ambiguous() -> None:
    assert Steps(np.array([np.nan]), np.zeros(1), np.zeros(1, bool)).quantized(0, "int8").ambiguous


def test_a_graph_of_quantised_operators_is_mostly_judged() -> None:
    """The graph is like those of frontends: quantize, conv2d, requantize, add, dequantize."""
    b = Builder(seed=3)
    x = b.input(TensorType((1, 4, 7, 6), "float32"))
    q = b.simple("qnn.quantize", x)
    y = b.simple("qnn.requantize", b.simple("qnn.conv2d", q), axis=1, output_scale=0.31)
    add = OPERATORS["qnn.add"]
    values = choose_parameters(add, b.types[y], first)
    (s,) = b.apply(add, y, values, lambda o, i: y if o.role == "data" else b.fresh(o))
    graph = b.graph(b.simple("qnn.dequantize", s))
    (y_real,) = evaluation.evaluate(graph, {**data.inputs(graph, 0), **data.constants(graph)})
    assert compare(y_real.value.astype(np.float32), y_real).judged.mean() > 0.9
    assert np.median(y_real.error / np.maximum(np.abs(y_real.value), 0.1)) < 1e-5

