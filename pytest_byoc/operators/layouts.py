"""Layouts by name, as NCHW4c: an axis is an upper case letter, a block a size and a lower case one.

Their parsing, and the type rule and parameters of layout_transform.
"""

from __future__ import annotations

import re
from typing import Sequence

from ..core.graph import TensorType
from .record import Attrs, Classes, TypeRuleError


def parsed(layout: str) -> list[tuple[str, int]]:
    """Returns the letters of a layout with their block sizes, 0 for an axis itself.

    "NC4c" gives [("N", 0), ("C", 0), ("c", 4)].
    """
    return [(letter, int(size or 0)) for size, letter in re.findall(r"(\d*)([A-Za-z])", layout)]


def _lengths(shape: Sequence[int], layout: str) -> dict[str, int]:
    """Returns the extent of each axis, including its blocks, by its upper case letter.

    Raises TypeRuleError if the shape does not fit the layout.
    """
    names = parsed(layout)
    if len(names) != len(shape):
        raise TypeRuleError("the shape %s does not have the axes of the layout %s" % (tuple(shape), layout))
    lengths: dict[str, int] = {}
    for (letter, size), d in zip(names, shape):
        if size not in (0, d):
            raise TypeRuleError(
                "the shape %s does not have the blocks of the layout %s" % (tuple(shape), layout)
            )
        lengths[letter.upper()] = lengths.get(letter.upper(), 1) * d
    return lengths


def transformed(shape: Sequence[int], src_layout: str, dst_layout: str) -> tuple[int, ...]:
    """Returns the shape of a tensor after the change of layout.

    Raises TypeRuleError if the shape does not fit, or the layouts have different axes.
    """
    lengths, names = _lengths(shape, src_layout), parsed(dst_layout)
    if {letter.upper() for letter, _ in names} != set(lengths):
        raise TypeRuleError("the layouts %s and %s name different axes" % (src_layout, dst_layout))
    for letter, size in names:
        if size:
            if lengths[letter.upper()] % size:
                raise TypeRuleError("axis %s cannot be split into blocks of %d" % (letter.upper(), size))
            lengths[letter.upper()] //= size
    return tuple(size or lengths[letter] for letter, size in names)


def infer(types: Sequence[TensorType], attrs: Attrs) -> tuple[TensorType, ...]:
    shape = transformed(types[0].shape, attrs["src_layout"], attrs["dst_layout"])
    return (TensorType(shape, types[0].dtype),)


def sources(x: TensorType, chosen: Attrs) -> Classes:
    r = x.rank
    return {
        "nchw": ("NCHW",) if r == 4 else (),
        "nhwc": ("NHWC",) if r == 4 else (),
        "weight": ("OIHW", "HWIO") if r == 4 else (),
        "one_dim": ("NCW", "NWC") if r == 3 else (),
        "three_dims": ("NCDHW", "NDHWC") if r == 5 else (),
        "blocked": ("NCHW%dc" % x.shape[4],) if r == 5 and x.shape[4] > 1 else (),
    }


def targets(x: TensorType, chosen: Attrs) -> Classes:
    src = chosen["src_layout"]
    names = [letter for letter, size in parsed(src) if not size]
    lengths = _lengths(x.shape, src)
    first = "O" if "O" in names else "N"
    channel = "I" if "O" in names else "C"
    space = "".join(n for n in names if n not in (first, channel))
    orders = [first + channel + space, first + space + channel, space + channel + first]
    rotated = space + first + channel
    sizes = [f for f in (2, 3, 4, 5) if lengths[channel] % f == 0]
    blocked = ["%s%d%s" % (order, f, channel.lower()) for f in sizes for order in orders[:2]]
    outer = [g for g in (2, 3) if lengths.get("O", 1) % g == 0]
    both = ["%s%di%do" % (orders[0], f, g) for f in sizes for g in outer]
    return {
        "other_order": tuple(order for order in orders if order != src)[:2],
        "rotated": (rotated,) if rotated != src else (),
        "blocked": tuple(b for b in blocked if b != src),
        "blocked_both": tuple(both),
    }
