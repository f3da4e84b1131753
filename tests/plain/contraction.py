"""Plain evaluations of einsum, by indexing, and of matrix products, written out."""

from __future__ import annotations

from typing import Any

import numpy as np

from .sums import Sum


def _einsum(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
    """Uses one axis for each label of the result, then one for each summed label."""
    left, arrow, right = a["equation"].replace(" ", "").partition("->")
    # The capitals X and Y stand for the dimensions of the ellipsis.
    operands = left.replace("...", "XY"[: outs[0].rank - 2]).split(",")
    right = right.replace("...", "XY"[: outs[0].rank - 2])
    if not arrow:
        letters = "".join(operands)
        right = "".join(c for c in sorted(letters) if letters.count(c) == 1)
    sizes = {c: d for o, x in zip(operands, arrays, strict=True) for c, d in zip(o, x.shape, strict=True)}
    labels = right + "".join(c for c in sizes if c not in right)
    index = dict(zip(labels, np.indices([sizes[c] for c in labels]), strict=True))
    terms = arrays[0].dtype.type(1)
    for o, x in zip(operands, arrays, strict=True):
        terms = terms * x[tuple(index[c] for c in o)]
    return add(terms.reshape([sizes[c] for c in right] + [-1])).astype(arrays[0].dtype)


def _matmul(arrays: Any, a: dict[str, Any], outs: Any, add: Sum) -> np.ndarray:
    x, y = arrays
    columns = y[:, None] if y.ndim == 1 else y
    rows = x[None] if x.ndim == 1 else x
    terms = rows[..., :, None, :] * np.swapaxes(columns, -1, -2)[..., None, :, :]
    return add(terms).astype(x.dtype).reshape(outs[0].shape)


PLAIN: dict[str, Any] = {
    "einsum": _einsum,
    "matmul": _matmul,
    "outer": lambda arrays, a, outs, add: np.stack([v * arrays[1] for v in arrays[0]]),
}
