"""Tests of convolutions and pools by example: lengths, windows, infinite weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_byoc.core.graph import TensorType
from pytest_byoc.operators import OPERATORS
from pytest_byoc.operators.record import TypeRuleError
from pytest_byoc.reference_kernels import KERNELS, Bounded, exact


def apply(name: str, *arrays: Any, **attrs: Any) -> Bounded:
    y = KERNELS[name]([exact(np.array(a, "float32")) for a in arrays], attrs)
    assert isinstance(y, Bounded)
    return y


def infer(name: str, *shapes: tuple[int, ...], **attrs: Any) -> tuple[int, ...]:
    (y,) = OPERATORS[name].infer([TensorType(s, "float32") for s in shapes], attrs)
    return y.shape


def conv1d(transposed: bool = False, **attrs: Any) -> dict[str, Any]:
    """Returns the attributes of a one-dimensional convolution with one channel."""
    default: dict[str, Any] = {
        "data_layout": "NCW", "kernel_layout": "OIW", "groups": 1, "channels": 1, "kernel_size": (3,),
        "strides": (1,), "padding": (0, 0), "dilation": (1,),
    }  # fmt: skip
    if transposed:
        default.update(kernel_layout="IOW", output_padding=(0,))
    return {**default, **attrs}


def test_lengths_in_three_dimensions() -> None:
    attrs: dict[str, Any] = {
        "data_layout": "NDHWC", "kernel_layout": "DHWIO", "groups": 1, "channels": 5,
        "kernel_size": (3, 2, 1), "strides": (1, 2, 3), "padding": (0, 1, 2, 1, 0, 0), "dilation": (2, 1, 1),
    }  # fmt: skip
    assert infer("nn.conv3d", (2, 6, 7, 8, 4), (3, 2, 1, 4, 5), **attrs) == (2, 3, 4, 4, 5)
    with pytest.raises(TypeRuleError):
        infer("nn.conv3d", (2, 6, 7, 8, 4), (3, 2, 1, 4, 5), **{**attrs, "kernel_size": (3, 2, 2)})


@pytest.mark.parametrize(
    ("attrs", "length"),
    [
        ({}, 6),
        ({"strides": (2,)}, 9),
        ({"strides": (2,), "output_padding": (1,)}, 10),
        ({"strides": (2,), "padding": (1, 0)}, 8),
        ({"dilation": (2,)}, 8),
    ],
)
def test_length_of_a_transposed_convolution(attrs: Any, length: int) -> None:
    attrs = conv1d(transposed=True, **attrs)
    assert infer("nn.conv1d_transpose", (1, 1, 4), (1, 1, 3), **attrs) == (1, 1, length)


def test_a_transposed_convolution_adds_the_kernel_at_each_element() -> None:
    attrs = conv1d(transposed=True, strides=(2,), output_padding=(1,), padding=(1, 0))
    y = apply("nn.conv1d_transpose", [[[1, 10]]], [[[1, 2, 3]]], **attrs)
    # 1 2 3+10 20 30, the first cut off and a zero appended.
    np.testing.assert_array_equal(y.value, [[[2, 13, 20, 30, 0]]])


def test_an_infinite_weight_over_padding_is_ambiguous() -> None:
    x, w = [[[1.0, 2.0, 3.0]]], [[[np.inf, 1.0, 1.0]]]
    y = apply("nn.conv1d", x, w, **conv1d(padding=(1, 0)))
    np.testing.assert_array_equal(y.ambiguous, [[[True, False]]])
    assert y.value[0, 0, 1] == np.inf
    # The image of a transposed convolution has padding between its elements, too.
    y = apply("nn.conv1d_transpose", x, w, **conv1d(transposed=True, strides=(2,)))
    np.testing.assert_array_equal(y.ambiguous, [[[False, True, False, True, False, True, True]]])


def test_adaptive_windows_overlap() -> None:
    """Three windows of five elements hold 0 1, 1 2 3 and 3 4; seven windows hold one or two
    elements each."""
    x = [[[1.0, 2.0, 4.0, 8.0, 16.0]]]
    y = apply("nn.adaptive_avg_pool1d", x, layout="NCW", output_size=(3,))
    np.testing.assert_allclose(y.value, [[[1.5, 14 / 3, 12.0]]])
    y = apply("nn.adaptive_max_pool1d", x, layout="NCW", output_size=(7,))
    np.testing.assert_array_equal(y.value, [[[1, 2, 4, 4, 8, 16, 16]]])


def test_gradient_of_a_weight() -> None:
    """The gradient of a weight is the sum of its factors times the gradients of the products."""
    attrs: dict[str, Any] = {
        "grad_layout": "NCHW", "data_layout": "NCHW", "kernel_layout": "OIHW", "groups": 1, "channels": 1,
        "kernel_size": (1, 2), "strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1),
    }  # fmt: skip
    y = apply("nn.conv2d_backward_weight", [[[[1, 10]]]], [[[[1, 2, 3]]]], **attrs)
    np.testing.assert_array_equal(y.value, [[[[21, 32]]]])


def test_dilate_rounds_the_dilation_value_to_the_dtype() -> None:
    y = apply("nn.dilate", [1, 2], strides=(3,), dilation_value=0.1)
    np.testing.assert_array_equal(y.value, [1, 0.1, 0.1, 2])
    assert not y.error[[0, 3]].any()
    assert abs(np.float32(0.1) - 0.1) <= y.error[1] < 1e-8


def test_deformable_convolution_interpolates_between_neighbours() -> None:
    attrs: dict[str, Any] = {
        "data_layout": "NCHW", "kernel_layout": "OIHW", "groups": 1, "channels": 1, "kernel_size": (1, 1),
        "strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), "deformable_groups": 1,
    }  # fmt: skip
    # Offsets down and to the right: between four elements, after the last column, before the first
    # row, at an element.
    down, right = [[0.5, 0.0], [-1.25, -1.0]], [[0.25, 0.5], [0.0, -1.0]]
    y = apply("nn.deformable_conv2d", [[[[1, 2], [4, 8]]]], [[down, right]], [[[[1]]]], **attrs)
    np.testing.assert_allclose(y.value, [[[[0.5 * 1.25 + 0.5 * 5.0, 1.0], [0.0, 1.0]]]])
    assert not y.ambiguous.any()


def test_padding_of_a_transposed_convolution_beyond_its_kernel_cuts_elements_off() -> None:
    attrs = conv1d(transposed=True, kernel_size=(2,), padding=(3, 1))
    y = apply("nn.conv1d_transpose", [[[1, 2, 3, 4, 5]]], [[[1, 10]]], **attrs)
    # Without padding: 1, 12, 23, 34, 45, 50.
    assert y.value.tolist() == [[[34, 45]]]
    assert infer("nn.conv1d_transpose", (1, 1, 5), (1, 1, 2), **attrs) == (1, 1, 2)
