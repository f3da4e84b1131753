"""Tests of resizing against ONNX's reference evaluator, in the cases in which both agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference.ops.op_resize import Resize

from pytest_byoc.core.graph import TensorType
from pytest_byoc.operators import OPERATORS
from pytest_byoc.reference_kernels import KERNELS, Bounded, exact

from .conftest import needs_new_onnx

_METHODS = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}


def _kernel(x: np.ndarray, name: str = "image.resize2d", **attrs: Any) -> Bounded:
    given = {
        "layout": "NCHW", "method": "linear", "coordinate_transformation_mode": "half_pixel",
        "rounding_method": "floor", "cubic_alpha": -0.5, "cubic_exclude": 0, "roi": (0.0,) * 4,
        "extrapolation_value": 0.0, **attrs,
    }
    y = KERNELS[name]([exact(x)], given)
    assert isinstance(y, Bounded)
    return y


@needs_new_onnx
@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
@pytest.mark.parametrize("size", [(10, 12), (3, 4), (7, 5), (8, 3)])
def test_resize_agrees_with_onnx(size: tuple[int, int], method: str, mode: str) -> None:
    x = np.random.default_rng(1).uniform(-2, 2, (1, 2, 5, 6))
    for alpha, exclude in ((-0.5, 0), (-0.75, 0), (-0.625, 1)):
        expected = Resize.eval(
            x, None, None, np.array([1, 2, *size]),
            mode=_METHODS[method], coordinate_transformation_mode=mode, nearest_mode="round_prefer_floor",
            cubic_coeff_a=alpha, exclude_outside=exclude,
        )
        y = _kernel(
            x, size=size, method=method, coordinate_transformation_mode=mode,
            rounding_method="round_prefer_floor", cubic_alpha=alpha, cubic_exclude=exclude,
        )
        # ONNX's evaluator rounds the weights of cubic interpolation to float32.
        far = np.abs(y.value - expected) > (1e-5 if method == "cubic" else 1e-12)
        assert not (far & ~y.ambiguous).any()
        assert np.mean(y.ambiguous) < 0.5


def test_a_coordinate_may_be_divided_by_the_reciprocal_of_the_scale() -> None:
    """ONNX divides by the new size over the old one, whose float32 rounding differs from that of
    its reciprocal."""
    x = np.random.default_rng(1).uniform(-2, 2, (1, 1, 1, 7)).astype("float32")
    y = _kernel(x, size=(1, 8))
    at = (np.arange(8, dtype="float32") + np.float32(0.5)) / np.float32(8 / 7) - np.float32(0.5)
    low = np.floor(at).astype(int)
    left, right = (x[0, 0, 0, np.clip(i, 0, 6)].astype(float) for i in (low, low + 1))
    divided = left * (1 - (at - low).astype(float)) + right * (at - low).astype(float)
    off = np.abs(divided - y.value[0, 0, 0])
    assert off.max() > 2e-7 and (off <= y.error[0, 0, 0]).all() and y.error.max() < 1e-5


def test_a_pixel_may_have_weight_zero_at_coordinates_outside_the_image() -> None:
    """Some implementations move the coordinate to the edge, others move its two pixels."""
    x = np.array([[[[1.0, np.inf, 1.0, 1.0]]]], "float32")
    y = _kernel(x, size=(1, 8))
    # The coordinates are -0.25, 0.25, 0.75, 1.25, 1.75, 2.25 …
    assert y.ambiguous[0, 0, 0].tolist() == [True] * 5 + [False] * 3


def test_crop_and_resize_fills_coordinates_outside_the_image() -> None:
    x = np.arange(12.0).reshape(1, 1, 3, 4)
    y = _kernel(
        x, size=(3, 3), coordinate_transformation_mode="tf_crop_and_resize",
        roi=(0.25, -0.5, 0.75, 0.5), extrapolation_value=9.0,
    )
    # Columns are -1.5, 0 and 1.5; rows 0.5, 1 and 1.5. A coordinate on the edge may count as
    # either.
    np.testing.assert_array_equal(y.value[0, 0, :, 0], 9.0)
    np.testing.assert_allclose(y.value[0, 0, :, 2], [3.5, 5.5, 7.5])
    assert y.ambiguous[0, 0, :, 1].all() and not y.ambiguous[0, 0, :, [0, 2]].any()


def test_a_coordinate_between_pixels_that_float32_rounds_is_ambiguous() -> None:
    x = np.arange(5.0).reshape(1, 1, 1, 5)
    same = _kernel(x, size=(1, 15), method="nearest_neighbor")
    # The middle one of three positions per pixel is the pixel's centre, and an ulp decides its
    # floor.
    np.testing.assert_array_equal(same.ambiguous[0, 0, 0, 3:], [False, True, False] * 4)


def test_results_with_an_infinite_pixel_are_ambiguous() -> None:
    x = np.ones((1, 1, 1, 5), "float32")
    x[..., 4] = np.inf
    y = _kernel(x, size=(1, 10))
    np.testing.assert_array_equal(y.ambiguous[0, 0, 0], [False] * 7 + [True] * 3)
    assert np.isfinite(y.error[~y.ambiguous]).all()


def test_unset_rounding_depends_on_the_mode() -> None:
    x = np.arange(4.0).reshape(1, 1, 1, 4)
    for mode, rounding in (("align_corners", "round"), ("asymmetric", "floor")):
        given = {"size": (1, 8), "method": "nearest_neighbor", "coordinate_transformation_mode": mode}
        unset, named = (_kernel(x, **given, rounding_method=r) for r in ("", rounding))
        np.testing.assert_array_equal(unset.value, named.value)


def test_classes_of_the_rounding_follow_the_method() -> None:
    op = OPERATORS["image.resize2d"]
    (rounding,) = (p for p in op.parameters if p.name == "rounding_method")
    values = {"layout": "NCHW", "size": (10, 8), "coordinate_transformation_mode": "asymmetric"}
    x = TensorType((1, 3, 5, 4), "float32")
    assert set(rounding.values(x, {**values, "method": "linear"})) == {"unset"}
    assert set(rounding.values(x, {**values, "method": "nearest_neighbor"})) == {"unset", "floor"}
