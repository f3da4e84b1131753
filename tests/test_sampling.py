"""Tests of sampling against ONNX's reference evaluator, in the cases in which both agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference.ops.op_affine_grid import AffineGrid
from onnx.reference.ops.op_grid_sample import GridSample

from pytest_byoc.reference_kernels import KERNELS, Bounded, exact

_METHODS = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}


def _kernel(name: str, *arrays: np.ndarray, **attrs: Any) -> Bounded:
    y = KERNELS[name]([exact(a) for a in arrays], attrs)
    assert isinstance(y, Bounded)
    return y


@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("method", ["nearest", "bilinear", "bicubic"])
def test_grid_sample_agrees_with_onnx(method: str, padding: str, corners: bool) -> None:
    numbers = np.random.default_rng(1)
    # Cubic samples outside the image differ: ONNX reflects coordinates before it reflects pixels.
    far = 0.95 if method == "bicubic" else 1.7
    x, grid = numbers.uniform(-2, 2, (2, 3, 5, 4)), numbers.uniform(-far, far, (2, 2, 3, 4))
    expected = GridSample.eval(
        x, np.moveaxis(grid, 1, -1), mode=_METHODS[method], padding_mode=padding, align_corners=int(corners)
    )
    attrs: dict[str, Any] = {"layout": "NCHW", "padding_mode": padding, "align_corners": corners}
    y = _kernel("image.grid_sample", x, grid, method=method, **attrs)
    # ONNX's evaluator computes coordinates in float32.
    assert not y.ambiguous.any() and np.abs(y.value - expected).max() < 1e-5


def test_affine_grid_agrees_with_onnx() -> None:
    theta = np.random.default_rng(1).uniform(-2, 2, (2, 2, 3))
    expected = AffineGrid.eval(theta, np.array([2, 1, 4, 5]), align_corners=1)
    y = _kernel("image.affine_grid", theta, target_shape=(4, 5))
    np.testing.assert_allclose(y.value, np.moveaxis(expected, -1, 1), atol=1e-12)


def test_halfway_between_pixels_only_nearest_is_ambiguous() -> None:
    x = np.arange(3.0).reshape(1, 1, 1, 3).repeat(3, 2)
    grid = np.zeros((1, 2, 1, 3))
    grid[0, 0] = [-0.5, 0.5, 0.25]
    attrs: dict[str, Any] = {"layout": "NCHW", "padding_mode": "border", "align_corners": True}
    nearest = _kernel("image.grid_sample", x, grid, method="nearest", **attrs)
    np.testing.assert_array_equal(nearest.ambiguous.ravel(), [True, True, False])
    linear = _kernel("image.grid_sample", x, grid, method="bilinear", **attrs)
    np.testing.assert_array_equal(linear.value.ravel(), [0.5, 1.5, 1.25])
    assert not linear.ambiguous.any()
