"""Kernels of operators that move elements in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pytest_byoc.operators.layouts import parsed, transformed

from .bounded import Bounded
from .elementwise import Attrs, Kernel

Move = Callable[[np.ndarray, Attrs], np.ndarray]


def moved(f: Move) -> Kernel:
    """Builds a kernel that moves the first operand's elements; others give shapes only."""

    def kernel(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
        return inputs[0].map(lambda v: f(v, attrs))

    return kernel


def layout_transform(v: np.ndarray, attrs: Attrs) -> np.ndarray:
    """Joins the blocks of the source layout to whole axes, then splits these as the target says."""
    source, target = parsed(attrs["src_layout"]), parsed(attrs["dst_layout"])
    shape = transformed(v.shape, attrs["src_layout"], attrs["dst_layout"])
    # Each block is put behind its axis, so that joining them is a reshape.
    order = sorted(range(len(source)), key=lambda i: (source[i][0].upper(), source[i][1] > 0))
    joined: dict[str, int] = {}
    for (letter, _), d in zip(source, v.shape):
        joined[letter.upper()] = joined.get(letter.upper(), 1) * d
    whole = v.transpose(order).reshape([joined[letter] for letter in sorted(joined)])
    apart = sorted(range(len(target)), key=lambda i: (target[i][0].upper(), target[i][1] > 0))
    return whole.reshape([shape[i] for i in apart]).transpose(np.argsort(apart))


def _channels_first(v: np.ndarray, layout: str) -> np.ndarray:
    return v if layout == "NCHW" else v.transpose(0, 3, 1, 2)


def _back(v: np.ndarray, layout: str) -> np.ndarray:
    return v if layout == "NCHW" else v.transpose(0, 2, 3, 1)


def depth_to_space(v: np.ndarray, attrs: Attrs) -> np.ndarray:
    """Computes ONNX DepthToSpace.

    The position within a block is the slowest part of the channels in mode DCR, the fastest in CRD.
    """
    b, layout = attrs["block_size"], attrs["layout"]
    x = _channels_first(v, layout)
    n, c, h, w = x.shape
    c //= b * b
    if attrs["mode"] == "DCR":
        y = x.reshape(n, b, b, c, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        y = x.reshape(n, c, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return _back(y.reshape(n, c, h * b, w * b), layout)


def space_to_depth(v: np.ndarray, attrs: Attrs) -> np.ndarray:
    b, layout = attrs["block_size"], attrs["layout"]
    x = _channels_first(v, layout)
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return _back(y.reshape(n, c * b * b, h // b, w // b), layout)


def space_to_batch_nd(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    """Computes tf.space_to_batch_nd.

    It pads x, cuts it into blocks, and makes the position within a block part of the batch axis.
    """
    (x,) = inputs
    blocks, m = attrs["block_shape"], len(attrs["block_shape"])
    width = [(0, 0), *(tuple(p) for p in attrs["paddings"])]
    width += [(0, 0)] * (len(x.shape) - len(width))

    def blocked(v: np.ndarray) -> np.ndarray:
        n, rest = v.shape[0], v.shape[m + 1 :]
        cut = [part for d, b in zip(v.shape[1:], blocks) for part in (d // b, b)]
        inner, outer = list(range(2, 2 * m + 1, 2)), list(range(1, 2 * m, 2))
        y = v.reshape([n, *cut, *rest])
        y = y.transpose([*inner, 0, *outer, *range(2 * m + 1, y.ndim)])
        return y.reshape([n * int(np.prod(blocks)), *cut[::2], *rest])

    fill = x.value.dtype.type(attrs["pad_value"])
    value = np.pad(x.value, width, constant_values=fill)
    return Bounded(value, np.pad(x.error, width), np.pad(x.ambiguous, width), x.dtype).map(blocked)


def batch_to_space_nd(v: np.ndarray, attrs: Attrs) -> np.ndarray:
    blocks, m = list(attrs["block_shape"]), len(attrs["block_shape"])
    space, rest = v.shape[1 : m + 1], v.shape[m + 1 :]
    n = v.shape[0] // int(np.prod(blocks))
    y = v.reshape([*blocks, n, *space, *rest])
    order = [m] + [axis for i in range(m) for axis in (m + 1 + i, i)]
    y = y.transpose(order + list(range(2 * m + 1, y.ndim)))
    y = y.reshape([n, *(d * b for d, b in zip(space, blocks)), *rest])
    kept = tuple(slice(begin, d - end) for d, (begin, end) in zip(y.shape[1:], attrs["crops"]))
    return y[(slice(None),) + kept]


def stack(inputs: Sequence[Bounded], attrs: Attrs) -> Bounded:
    axis = attrs["axis"]
    return Bounded(
        np.stack([x.value for x in inputs], axis),
        np.stack([x.error for x in inputs], axis),
        np.stack([x.ambiguous for x in inputs], axis),
        inputs[0].dtype,
    )


def meshgrid(inputs: Sequence[Bounded], attrs: Attrs) -> tuple[Bounded, ...]:
    def mesh(arrays: list[np.ndarray]) -> Any:
        return np.meshgrid(*arrays, indexing=attrs["indexing"])

    parts = zip(
        mesh([x.value for x in inputs]), mesh([x.error for x in inputs]), mesh([x.ambiguous for x in inputs])
    )
    return tuple(Bounded(v, e, a, inputs[0].dtype) for v, e, a in parts)


def sliding_window(v: np.ndarray, attrs: Attrs) -> np.ndarray:
    axis = attrs["axis"] % v.ndim
    windows = np.lib.stride_tricks.sliding_window_view(
        v, tuple(attrs["window_shape"]), tuple(range(axis, v.ndim))
    )
    return windows[(slice(None),) * axis + tuple(slice(None, None, s) for s in attrs["strides"])]


KERNELS: dict[str, Kernel] = {
    "layout_transform": moved(layout_transform),
    "nn.depth_to_space": moved(depth_to_space),
    "nn.space_to_depth": moved(space_to_depth),
    "nn.space_to_batch_nd": space_to_batch_nd,
    "nn.batch_to_space_nd": moved(batch_to_space_nd),
    "tile": moved(lambda v, a: np.tile(v, tuple(a["reps"]))),
    "repeat": moved(lambda v, a: np.repeat(v, a["repeats"], a["axis"])),
    "stack": stack,
    "reverse": moved(lambda v, a: np.flip(v, a["axis"])),
    "nn.mirror_pad": moved(lambda v, a: np.pad(v, [tuple(w) for w in a["pad_width"]], a["mode"].lower())),
    "triu": moved(lambda v, a: np.triu(v, a["k"])),
    "tril": moved(lambda v, a: np.tril(v, a["k"])),
    "meshgrid": meshgrid,
    "sliding_window": moved(sliding_window),
    "flatten": moved(lambda v, a: v.reshape(-1)),
}
