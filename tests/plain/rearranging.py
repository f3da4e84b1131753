"""Plain evaluations of data movement in blocks. Each element of the result is looked up by its
index, or ONNX's reference evaluator moves all of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx.reference.ops.op_depth_to_space import DepthToSpace
from onnx.reference.ops.op_space_to_depth import SpaceToDepth
from onnx.reference.ops.op_tile import Tile

Index = tuple[int, ...]


def looked_up(where: Callable[[Index, Any, dict[str, Any]], Index | None], fill: str = "") -> Any:
    """Returns an evaluation that looks up each element. `where` maps (index in the result, the
    operand's shape, attributes) to the index in the operand, or to None where the attribute named
    `fill`, or zero, is filled in."""

    def evaluate(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> np.ndarray:
        x = arrays[0]
        y = np.full(outs[0].shape, a.get(fill, 0), x.dtype)
        for index in np.ndindex(*outs[0].shape):
            source = where(index, x.shape, a)
            if source is not None:
                y[index] = x[source]
        return y

    return evaluate


def _by_axis(layout: str) -> list[tuple[int, str]]:
    """Returns (block size, letter) pairs, outermost first."""
    return [(int(n or 0), c) for n, c in re.findall(r"(\d*)(\w)", layout)]


def _transform(index: Index, shape: Any, a: dict[str, Any]) -> Index:
    at: dict[str, int] = {}
    names = _by_axis(a["dst_layout"])
    for (size, letter), i in zip(names, index):
        block = next((n for n, c in names if n and c.upper() == letter), 1)
        at[letter.upper()] = at.get(letter.upper(), 0) + (i if size else i * block)
    source = _by_axis(a["src_layout"])
    coordinates = []
    for size, letter in source:
        block = next((n for n, c in source if n and c.upper() == letter), 1)
        coordinates.append(at[letter.upper()] % size if size else at[letter] // block)
    return tuple(coordinates)


def _onnx_blocks(op: Any, arrays: list[np.ndarray], a: dict[str, Any], **options: Any) -> np.ndarray:
    x = arrays[0] if a["layout"] == "NCHW" else np.moveaxis(arrays[0], 3, 1)
    y = op.eval(x, blocksize=a["block_size"], **options)
    return y if a["layout"] == "NCHW" else np.moveaxis(y, 1, 3)


def _to_batch(index: Index, shape: Any, a: dict[str, Any]) -> Index | None:
    rest, source = index[0], list(index)
    for i in range(len(a["block_shape"]), 0, -1):
        b = a["block_shape"][i - 1]
        source[i] = index[i] * b - a["paddings"][i - 1][0]
        # The batch is the fastest part of the first axis: the positions come before it.
    batch = shape[0]
    source[0], position = rest % batch, rest // batch
    for i in range(len(a["block_shape"]), 0, -1):
        b = a["block_shape"][i - 1]
        source[i] += position % b
        position //= b
        if not 0 <= source[i] < shape[i]:
            return None
    return tuple(source)


def _from_batch(index: Index, shape: Any, a: dict[str, Any]) -> Index:
    position, source = 0, list(index)
    for i, (b, (begin, _)) in enumerate(zip(a["block_shape"], a["crops"]), 1):
        position = position * b + (index[i] + begin) % b
        source[i] = (index[i] + begin) // b
    source[0] = position * (shape[0] // int(np.prod(a["block_shape"]))) + index[0]
    return tuple(source)


def _tile(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> np.ndarray:
    rank = len(outs[0].shape)
    x = arrays[0].reshape((1,) * (rank - arrays[0].ndim) + arrays[0].shape)
    reps = (1,) * (rank - len(a["reps"])) + tuple(a["reps"])
    tiled: np.ndarray = Tile.eval(x, np.array(reps))
    return tiled


def _repeated(index: Index, shape: Any, a: dict[str, Any]) -> Index:
    axis = range(len(shape))[a["axis"]]
    return tuple(i // a["repeats"] if k == axis else i for k, i in enumerate(index))


def _reversed(index: Index, shape: Any, a: dict[str, Any]) -> Index:
    axis = range(len(shape))[a["axis"]]
    return tuple(shape[k] - 1 - i if k == axis else i for k, i in enumerate(index))


def _mirrored(index: Index, shape: Any, a: dict[str, Any]) -> Index:
    source, edge = [], 0 if a["mode"] == "REFLECT" else 1
    for i, d, (before, _) in zip(index, shape, a["pad_width"]):
        i -= before
        i = -edge - i if i < 0 else i
        source.append(2 * (d - 1) + edge - i if i >= d else i)
    return tuple(source)


def _upper(index: Index, shape: Any, a: dict[str, Any]) -> Index | None:
    return index if index[-1] - index[-2] >= a["k"] else None


def _lower(index: Index, shape: Any, a: dict[str, Any]) -> Index | None:
    return index if index[-1] - index[-2] <= a["k"] else None


def _stack(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> np.ndarray:
    y = np.empty(outs[0].shape, arrays[0].dtype)
    for i, x in enumerate(arrays):
        np.moveaxis(y, a["axis"], 0)[i] = x
    return y


def _mesh(arrays: list[np.ndarray], a: dict[str, Any], outs: Any, add: Any) -> tuple[np.ndarray, ...]:
    shape = [1] * len(arrays)
    grids = []
    for i, x in enumerate(arrays):
        axis = 1 - i if a["indexing"] == "xy" and i < 2 and len(arrays) > 1 else i
        column = x.reshape([-1 if k == axis else 1 for k in range(len(shape))])
        grids.append(np.broadcast_to(column, outs[i].shape))
    return tuple(grids)


def _window(index: Index, shape: Any, a: dict[str, Any]) -> Index:
    axis, n = range(len(shape))[a["axis"]], len(a["window_shape"])
    steps, inside = index[axis : axis + n], index[axis + n :]
    return index[:axis] + tuple(i * s + j for i, s, j in zip(steps, a["strides"], inside))


PLAIN: dict[str, Any] = {
    "layout_transform": looked_up(_transform),
    "nn.depth_to_space": lambda x, a, o, s: _onnx_blocks(DepthToSpace, x, a, mode=a["mode"]),
    "nn.space_to_depth": lambda x, a, o, s: _onnx_blocks(SpaceToDepth, x, a),
    "nn.space_to_batch_nd": looked_up(_to_batch, "pad_value"),
    "nn.batch_to_space_nd": looked_up(_from_batch),
    "tile": _tile,
    "repeat": looked_up(_repeated),
    "stack": _stack,
    "reverse": looked_up(_reversed),
    "nn.mirror_pad": looked_up(_mirrored),
    "triu": looked_up(_upper),
    "tril": looked_up(_lower),
    "meshgrid": _mesh,
    "sliding_window": looked_up(_window),
    "flatten": lambda x, a, o, s: np.array(x[0].flatten().tolist(), x[0].dtype),
}
BY = dict.fromkeys(("nn.depth_to_space", "nn.space_to_depth", "tile"), "ONNX's reference evaluator")
