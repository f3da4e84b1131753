"""Tests of normalisations by example: ONNX's evaluation, variance in one pass, special values."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.helper
import pytest
from onnx.reference import ReferenceEvaluator

from pytest_byoc.reference_kernels import KERNELS, Bounded, exact

FLAGS = {"center": True, "scale": True, "epsilon": 0.01}
DRAW = np.random.default_rng(11)


def _apply(name: str, arrays: list[np.ndarray], **attrs: Any) -> Bounded:
    y = KERNELS[name]([exact(a) for a in arrays], attrs)
    return y[0] if isinstance(y, tuple) else y


def _onnx(op: str, arrays: list[np.ndarray], version: int, **attrs: Any) -> np.ndarray:
    named = {f"x{i}": a for i, a in enumerate(arrays)}
    node = onnx.helper.make_node(op, list(named), ["y"], **attrs)
    kind = onnx.helper.np_dtype_to_tensor_dtype(arrays[0].dtype)
    values = [onnx.helper.make_tensor_value_info(n, kind, a.shape) for n, a in named.items()]
    result = onnx.helper.make_tensor_value_info("y", kind, None)
    graph = onnx.helper.make_graph([node], "one", values, [result])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", version)])
    return np.asarray(ReferenceEvaluator(model).run(None, named)[0])


def _drawn(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [DRAW.uniform(-2, 2, s).astype("float32") for s in shapes]


@pytest.mark.parametrize(
    ("name", "attrs", "op", "version", "onnx_attrs", "shapes"),
    [
        ("nn.layer_norm", {"axes": (-1,)}, "LayerNormalization", 17, {"axis": -1}, [(2, 6, 5), (5,), (5,)]),
        (
            "nn.layer_norm",
            {"axes": (1, 2)},
            "LayerNormalization",
            17,
            {"axis": 1},
            [(2, 6, 5), (6, 5), (6, 5)],
        ),
        ("nn.instance_norm", {"axis": 1}, "InstanceNormalization", 6, {}, [(2, 6, 4, 5), (6,), (6,)]),
        (
            "nn.group_norm",
            {"axis": 1, "num_groups": 3},
            "GroupNormalization",
            21,
            {"num_groups": 3},
            [(2, 6, 4, 5), (6,), (6,)],
        ),
    ],
)
def test_agrees_with_onnx(
    name: str, attrs: Any, op: str, version: int, onnx_attrs: Any, shapes: Any
) -> None:
    arrays = _drawn(*shapes)
    y = _apply(name, arrays, **FLAGS, **attrs)
    y_onnx = _onnx(op, arrays, version, epsilon=FLAGS["epsilon"], **onnx_attrs)
    assert (np.abs(y_onnx - y.value) <= y.error).all() and not y.ambiguous.any()


def test_batch_norm_agrees_with_onnx() -> None:
    arrays = [*_drawn((2, 6, 4, 5), (6,), (6,), (6,)), DRAW.uniform(0.3, 2, 6).astype("float32")]
    y = _apply("nn.batch_norm", arrays, axis=1, **FLAGS)
    y_onnx = _onnx("BatchNormalization", arrays, 15, epsilon=FLAGS["epsilon"])
    assert (np.abs(y_onnx - y.value) <= y.error).all()


def test_lrn_agrees_with_onnx() -> None:
    # ONNX's reference normalises as many channels as there are images.
    arrays = _drawn((6, 6, 4, 5))
    y = _apply("nn.lrn", arrays, size=3, axis=1, alpha=0.3, beta=0.7, bias=1.5)
    y_onnx = _onnx("LRN", arrays, 13, size=3, alpha=0.3, beta=0.7, bias=1.5)
    assert (np.abs(y_onnx - y.value) <= y.error).all()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("middle", [0.0, 1.0, 8.0])
def test_variance_in_one_pass_is_inside_the_bound(dtype: str, middle: float) -> None:
    """Computes mean(x^2) - mean(x)^2, and x * scale - mean * scale, for means near and far from
    zero."""
    kind = np.dtype(dtype).type
    x = (middle + DRAW.uniform(-1, 1, (200, 9))).astype(dtype)
    one, none = np.ones(9, dtype), np.zeros(9, dtype)
    y = _apply("nn.layer_norm", [x, one, none], axes=(-1,), **FLAGS)
    total, squares = kind(0), kind(0)
    for column in x.T:
        total, squares = total + column, squares + column * column
    mean = total / kind(9)
    variance = squares / kind(9) - mean * mean
    with np.errstate(all="ignore"):
        scale = kind(1) / np.sqrt(variance + kind(FLAGS["epsilon"]))
        actual = x * scale[:, None] - (mean * scale)[:, None]
        bad = ~(np.abs(actual - y.value) <= y.error) & ~y.ambiguous
    assert actual.dtype == dtype and not bad.any()
    # In float16, squares near 64 have too few digits for a variance of 1/3.
    assert y.ambiguous.all() == (dtype == "float16" and middle == 8.0)


def test_a_variance_lost_in_rounding_is_ambiguous() -> None:
    x = np.array([[1000.0, 1000.01, 1000.02], [1.0, 2.0, 4.0]], "float32")
    y = _apply("nn.layer_norm", [x, np.ones(3, "float32"), np.zeros(3, "float32")], axes=(1,), **FLAGS)
    np.testing.assert_array_equal(y.ambiguous, [[True] * 3, [False] * 3])


def test_special_values_of_batch_norm() -> None:
    x = np.array([[np.inf, np.nan, -np.inf, 1.0]], "float32").T
    one = np.ones(1, "float32")
    y = _apply("nn.batch_norm", [x, one, one, one, one], axis=1, **FLAGS)
    np.testing.assert_array_equal(y.value[:3, 0], [np.inf, np.nan, -np.inf])
    assert not y.ambiguous.any()
    # Infinity times zero: NaN, or 0 where scale is folded into something else.
    assert _apply("nn.batch_norm", [x, 0 * one, one, one, one], axis=1, **FLAGS).ambiguous[0]


def test_a_group_that_holds_nan_is_nan() -> None:
    x = np.array([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]], "float32")
    y = _apply("nn.layer_norm", [x, np.ones(3, "float32"), np.zeros(3, "float32")], axes=(1,), **FLAGS)
    assert np.isnan(y.value[0]).all() and np.isfinite(y.value[1]).all() and not y.ambiguous.any()


def test_an_operand_with_its_flag_off_is_ignored() -> None:
    x, scale, shift = _drawn((2, 5), (5,), (5,))
    y = _apply("nn.layer_norm", [x, scale, shift], axes=(1,), center=False, scale=True, epsilon=0.01)
    z = _apply("nn.layer_norm", [x, scale, 0 * shift], axes=(1,), **FLAGS)
    np.testing.assert_array_equal(y.value, z.value)
