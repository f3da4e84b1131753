"""Structures of a padding followed by a window.

A compiler that merges the two has to check the padding's value and axes, the window's own padding,
and whether another node reads the padded tensor."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

from ...core.graph import Graph, TensorType
from ..builder import Builder
from .vocabulary import Vocabulary, add, need

_IMAGE = TensorType((2, 3, 5, 4), "float32")
_LAST = TensorType((2, 5, 4, 3), "float32")
_SMALL = TensorType((1, 1, 3, 4), "float32")
_NONE = (0, 0)
#: Widths along two axes: four different numbers.
_SPATIAL = ((0, 1), (3, 2))
#: For each chain: parameters of the padding, parameters of the window, and whether the padded
#: tensor is an output too.
_CHAINS: tuple[tuple[dict[str, Any], dict[str, Any], bool], ...] = (
    ({}, {}, False),
    ({}, {"padding": (1, 0, 0, 1)}, False),
    ({"pad_value": 1.5}, {}, False),
    ({"pad_mode": "edge"}, {}, False),
    ({"pad_width": (_NONE, (1, 1), *_SPATIAL)}, {}, False),
    ({"pad_width": ((1, 0), _NONE, *_SPATIAL)}, {}, False),
    ({"pad_width": (_NONE, *_SPATIAL, _NONE)}, {"layout": "last"}, False),
    ({}, {"strides": (2, 1)}, True),
)
#: Widths of which some are equal, in every way but all and none: code that takes one for another is
#: right for most.
_PARTLY_EQUAL = tuple(
    widths for widths in product((1, 2, 3), repeat=4)
    # Each way once: the numbers occur in ascending order for the first time.
    if list(dict.fromkeys(widths)) == list(range(1, len(set(widths)) + 1)) and 1 < len(set(widths)) < 4
)  # fmt: skip
#: By structure, the window's operator and its parameters.
_WINDOWS: dict[str, tuple[str, dict[str, Any]]] = {
    "padded_conv": ("nn.conv2d", {"kernel_size": (3, 3), "channels": 4}),
    "padded_max_pool": ("nn.max_pool2d", {"pool_size": (3, 3)}),
    "padded_avg_pool": ("nn.avg_pool2d", {"pool_size": (3, 3)}),
    "padded_avg_pool_counted": ("nn.avg_pool2d", {"pool_size": (3, 3), "count_include_pad": True}),
}


def _padded(operator: str, usual: dict[str, Any], b: Builder, v: Vocabulary) -> Graph:
    """A window follows a padding, for each of _CHAINS (classes 36, 40)."""
    need(v, "nn.pad", operator, in_patterns=True)
    layout = "data_layout" if operator == "nn.conv2d" else "layout"
    outputs = []
    for padded, other, returned in _CHAINS:
        window = {**usual, **other}
        last = window.pop("layout", None)
        # All elements are below zero, so that zeros are the largest.
        x = b.input(_LAST if last else _IMAGE, -2.0, -0.5)
        width = padded.get("pad_width", (_NONE, _NONE, *_SPATIAL))
        y = b.simple("nn.pad", x, **{"pad_mode": "constant", "pad_value": 0.0, **padded, "pad_width": width})
        outputs.append(b.simple(operator, y, **window, **({layout: "NHWC"} if last else {})))
        outputs += [y] if returned else []
    for top, bottom, left, right in _PARTLY_EQUAL if operator == "nn.conv2d" else ():
        x = b.input(_SMALL, -2.0, -0.5)
        y = b.simple("nn.pad", x, pad_width=(_NONE, _NONE, (top, bottom), (left, right)))
        outputs.append(b.simple(operator, y, **usual))
    return b.graph(*outputs)


def register() -> None:
    """Adds the structures of this file."""
    for name, window in _WINDOWS.items():
        add(name, partial(_padded, *window))
