"""Tests of attention by example: ONNX's evaluation, masks, keys in tiles, special values."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.helper
import pytest
from onnx.reference import ReferenceEvaluator

from pytest_byoc.reference_kernels import KERNELS, Bounded, exact

from .conftest import needs_new_onnx

DRAW = np.random.default_rng(7)


def _drawn(*shapes: tuple[int, ...], dtype: str = "float32") -> list[np.ndarray]:
    return [DRAW.uniform(-2, 2, s).astype(dtype) for s in shapes]


def _apply(arrays: list[np.ndarray], scale: float | None = None, mask: str | None = None) -> Bounded:
    name = "nn.attention" if len(arrays) == 3 else "nn.attention_bias"
    y = KERNELS[name]([exact(a) for a in arrays], {"scale": scale, "causal_mask": mask})
    assert isinstance(y, Bounded)
    return y


def _onnx(arrays: list[np.ndarray], **attrs: Any) -> np.ndarray:
    """Evaluates ONNX's Attention, whose heads come before the sequence."""
    swapped = [a.swapaxes(1, 2) for a in arrays[:3]] + arrays[3:]
    named = {f"x{i}": a for i, a in enumerate(swapped)}
    kind = onnx.helper.np_dtype_to_tensor_dtype(arrays[0].dtype)
    node = onnx.helper.make_node("Attention", list(named), ["y"], **attrs)
    values = [onnx.helper.make_tensor_value_info(n, kind, a.shape) for n, a in named.items()]
    result = onnx.helper.make_tensor_value_info("y", kind, None)
    graph = onnx.helper.make_graph([node], "one", values, [result])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)])
    return np.asarray(ReferenceEvaluator(model).run(None, named)[0]).swapaxes(1, 2)


@needs_new_onnx
@pytest.mark.parametrize(
    ("scale", "mask", "bias"),
    [(None, None, None), (0.3, None, None), (None, "TopLeft", None), (None, None, (2, 2, 3, 5))],
)
def test_agrees_with_onnx(scale: float | None, mask: str | None, bias: tuple[int, ...] | None) -> None:
    arrays = _drawn((2, 3, 2, 4), (2, 5, 2, 4), (2, 5, 2, 6), *([bias] if bias else []))
    y = _apply(arrays, scale, mask)
    attrs: dict[str, Any] = {"is_causal": int(mask is not None)}
    if scale is not None:
        attrs["scale"] = scale
    assert (np.abs(_onnx(arrays, **attrs) - y.value) <= y.error).all() and not y.ambiguous.any()


@pytest.mark.parametrize(
    ("queries", "keys", "mask", "seen"),
    [
        # From the documentation of relax.op.nn.attention.
        (4, 2, "TopLeft", [1, 2, 2, 2]),
        (4, 2, "BottomRight", [2, 2, 2, 2]),
        (2, 4, "TopLeft", [1, 2]),
        (2, 4, "BottomRight", [3, 4]),
    ],
)
def test_number_of_keys_visible_to_each_query(queries: int, keys: int, mask: str, seen: list[int]) -> None:
    """All scores are equal: the result is the mean of the visible values."""
    q, k = np.zeros((1, queries, 1, 3), "float32"), np.zeros((1, keys, 1, 3), "float32")
    v = 2.0 ** np.arange(keys, dtype="float32").reshape(1, keys, 1, 1)
    y = _apply([q, k, v], None, mask)
    np.testing.assert_allclose(y.value.flatten(), [(2.0**n - 1) / n for n in seen])


def test_masked_keys_do_not_influence_the_result() -> None:
    """Neither the ambiguity nor the size of a masked key counts; but 0 * infinity may be NaN."""
    q, k, v = _drawn((1, 2, 1, 4), (1, 4, 1, 4), (1, 4, 1, 3))
    attrs = {"scale": None, "causal_mask": "TopLeft"}
    inputs = [exact(a) for a in (q, k, v)]
    for operand in inputs[1:]:
        operand.ambiguous[0, 3] = True
    y = KERNELS["nn.attention"](inputs, attrs)
    assert isinstance(y, Bounded) and not y.ambiguous.any()
    v[0, 3, 0, 1] = np.inf
    np.testing.assert_array_equal(_apply([q, k, v], None, "TopLeft").ambiguous[0, 0, 0], [0, 1, 0])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_keys_in_tiles(dtype: str) -> None:
    """FlashAttention gives the expected values: each tile of 16 keys corrects maximum and sums."""
    kind = np.dtype(dtype).type
    q, k, v = _drawn((1, 9, 1, 4), (1, 80, 1, 4), (1, 80, 1, 5), dtype=dtype)
    y = _apply([q, k, v])
    for i in range(9):
        most, total, out = kind(-60000), kind(0), np.zeros(5, dtype)
        for start in range(0, 80, 16):
            keys, values = k[0, start : start + 16, 0], v[0, start : start + 16, 0]
            scores = keys @ (q[0, i, 0] * kind(0.5))
            new = max(most, scores.max())
            powers, correction = np.exp(scores - new), np.exp(most - new)
            total, out, most = total * correction + powers.sum(), out * correction + powers @ values, new
        tiled = out / total
        assert tiled.dtype == dtype and (np.abs(tiled - y.value[0, i, 0]) <= y.error[0, i, 0]).all()


def test_visible_scores_far_below_the_masked_zeros_are_ambiguous() -> None:
    """TVM sets masked scores to 0 before it computes the maximum: exp(-200 - 0) is 0, and 0 / 0 is
    NaN."""
    q, k = np.full((1, 2, 1, 1), 10, "float32"), np.full((1, 2, 1, 1), -20, "float32")
    (v,) = _drawn((1, 2, 1, 3))
    np.testing.assert_array_equal(_apply([q, k, v], 1.0, "TopLeft").ambiguous[0, :, 0, 0], [True, False])
    assert not _apply([q, k, v], 1.0).ambiguous.any()


def test_nan_in_a_query_makes_its_row_nan() -> None:
    q, k, v = _drawn((1, 3, 2, 4), (1, 5, 2, 4), (1, 5, 2, 4))
    q[0, 1, 0, 2] = np.nan
    y = _apply([q, k, v])
    expected = np.zeros((1, 3, 2, 4), bool)
    expected[0, 1, 0] = True
    np.testing.assert_array_equal(np.isnan(y.value), expected)
    assert not y.ambiguous.any()
