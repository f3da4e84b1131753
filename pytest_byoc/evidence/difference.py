"""Describes a mask of the elements in which two tensors differ, in words and as a picture."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

#: The largest number of elements of a mask that is kept.
LARGEST = 1 << 22
#: The largest number of rows and of columns of a picture.
SIDE = 64
#: The largest number of positions along an axis that are listed one by one.
_LISTED = 4
#: The noun for one index of an axis, by the axis's letter in a layout.
_NOUNS = {"N": "image", "C": "channel", "D": "plane", "H": "row", "W": "column"}
_ORDINALS = {2: "second", 3: "third", 4: "fourth", 5: "fifth", 8: "eighth"}


def pack(mask: np.ndarray) -> dict[str, Any] | None:
    """Returns a mask (bool) as JSON data; None if it has more than LARGEST elements."""
    if mask.size > LARGEST:
        return None
    bits = zlib.compress(np.packbits(mask).tobytes(), 1)
    return {"shape": list(mask.shape), "bits": base64.b64encode(bits).decode()}


def unpack(packed: Mapping[str, Any]) -> np.ndarray:
    """Returns the mask (bool) that `pack` has packed."""
    shape = tuple(packed["shape"])
    bits = np.frombuffer(zlib.decompress(base64.b64decode(packed["bits"])), np.uint8)
    return np.unpackbits(bits, count=math.prod(shape)).astype(bool).reshape(shape)


# --- words ---------------------------------------------------------------------------------------


def describe(mask: np.ndarray, layout: str = "") -> str:
    """Describes the shape of a mask, as in "every row but the first".

    Returns "" where no simple description is exact. Positions count from 0, as in an index. layout:
    the layout of the tensor, for example "NCHW", if it is known.
    """
    count = int(mask.sum())
    if count == mask.size:
        return "the only element" if mask.size == 1 else "all elements" if count else ""
    nouns = _nouns(mask.ndim, layout)
    words = ""
    if 0 < count < mask.size:
        words = (
            ("one element" if count == 1 else "")
            or ("every element but one" if count == mask.size - 1 > 1 else "")
            or _product(mask, nouns)
            or _diagonal(mask)
            or _flat(mask)
            or _all_but(_product(~mask, nouns))
        )
    return words


def _nouns(rank: int, layout: str) -> list[str]:
    """Returns a noun in the singular for one index of each axis; "" for an axis without a name."""
    if len(layout) == rank and set(layout) <= set(_NOUNS):
        return [_NOUNS[letter] for letter in layout]
    return ["element"] if rank == 1 else [*[""] * (rank - 2), "row", "column"][-rank:] if rank else []


def _all_but(words: str) -> str:
    return f"all but {words}" if words else ""


def _product(mask: np.ndarray, nouns: Sequence[str]) -> str:
    """Describes a mask that is the product of some positions along each axis; "" for any other."""
    along = [mask.any(axis=tuple(a for a in range(mask.ndim) if a != axis)) for axis in range(mask.ndim)]
    if math.prod(int(a.sum()) for a in along) != int(mask.sum()):
        return ""
    limited = [axis for axis, positions in enumerate(along) if not positions.all()]
    words = []
    for axis in reversed(limited):
        positions = np.flatnonzero(along[axis])
        if len(limited) == 1 and nouns[axis] == "column" and nouns[axis - 1] == "row":
            ends = _of_each_row(positions, mask.shape[axis])
            if ends:
                return ends
        said = _positions(positions, mask.shape[axis], nouns[axis])
        if not said:
            return ""
        words.append(said if nouns[axis] else f"{said} along axis {axis}")
    return " of ".join(words)


def _of_each_row(positions: np.ndarray, extent: int) -> str:
    """Describes columns as the beginning or end of each row; "" where they are neither.

    A single column, or all but one, gives "" too.
    """
    count = len(positions)
    if count == 1 or count == extent - 1 or positions[-1] - positions[0] != count - 1:
        return ""
    for end, where in (("first", positions[0] == 0), ("last", positions[-1] == extent - 1)):
        if where:
            return f"the {end} {count} of each row of {extent}"
    return ""


def _positions(positions: np.ndarray, extent: int, noun: str) -> str:
    """Describes some positions of an axis; "" where no simple words are exact."""
    one, several = noun or "index", f"{noun}s" if noun else "indices"
    first, last, count = int(positions[0]), int(positions[-1]), len(positions)
    if count == 1:
        end = {0: "first", extent - 1: "last"}.get(first)
        return f"the {end} {one}" if end else f"{one} {first} of {extent}"
    if count == extent - 1 and extent > 2:
        (missing,) = set(range(extent)) - set(positions.tolist())
        end = {0: "the first", extent - 1: "the last"}.get(missing)
        return f"every {one} but {end or missing}"
    if last - first == count - 1:
        if first == 0:
            return f"the first {count} of {extent} {several}"
        return f"{several} {first} " + ("and up" if last == extent - 1 else f"to {last} of {extent}")
    step = int(positions[1]) - first
    regular = (np.diff(positions) == step).all() and last + step >= extent and first < step
    if regular and (count > 2 or step == 2):
        every = f"every {_ORDINALS.get(step, f'{step}th')} {one}"
        return every if first == 0 else f"{every} from {one} {first} on"
    if count <= _LISTED:
        return f"{several} {', '.join(map(str, positions[:-1]))} and {last} of {extent}"
    return ""


def _diagonal(mask: np.ndarray) -> str:
    """Describes a mask that is the same part of each square matrix; "" for any other."""
    if mask.ndim < 2 or mask.shape[-1] != mask.shape[-2]:
        return ""
    row, column = np.indices(mask.shape[-2:])
    for words, part in (
        ("the diagonal", row == column), ("all but the diagonal", row != column),
        ("all above the diagonal", row < column), ("all below the diagonal", row > column),
    ):
        if (mask == part).all():
            return words
    return ""


def _flat(mask: np.ndarray) -> str:
    """Describes a mask by the positions of its elements in row-major order; "" where that fails.

    It may be a run of elements, or every n-th of them.
    """
    if mask.ndim < 2:
        return ""
    positions = np.flatnonzero(mask)
    if len(positions) <= _LISTED and len(positions) > 1 and (np.diff(positions) != 1).any():
        return ""
    said = _positions(positions, mask.size, "element")
    return f"{said}, counted row by row" if said else ""


# --- a picture -----------------------------------------------------------------------------------


def picture(mask: np.ndarray) -> dict[str, Any]:
    """Returns the mask as a picture of at most SIDE by SIDE cells.

    The axes of extent 1 are dropped, and all axes but the last are merged. "rows": a string for
    each row, with a digit for each cell (0: no element in it differs, 1: some do, 2: all do).
    "group": the number of rows of one matrix, or 0 where the picture is not divided into matrices.
    """
    mask = mask.reshape([extent for extent in mask.shape if extent != 1])
    columns = mask.shape[-1] if mask.ndim else 1
    flat = mask.reshape(-1, columns) if mask.size else np.zeros((0, 0), bool)
    pooled = [[_cell(block) for block in _split(rows, 1)] for rows in _split(flat, 0)]
    group = mask.shape[-2] if mask.ndim > 2 and flat.shape[0] <= SIDE else 0
    return {"rows": ["".join(row) for row in pooled], "group": group}


def _split(array: np.ndarray, axis: int) -> Iterator[np.ndarray]:
    """Yields the at most SIDE pieces of an array along an axis."""
    extent = array.shape[axis]
    step = max(1, math.ceil(extent / SIDE))
    for begin in range(0, extent, step):
        yield array[begin : begin + step] if axis == 0 else array[:, begin : begin + step]


def _cell(block: np.ndarray) -> str:
    return "2" if block.all() else "1" if block.any() else "0"
