"""Elements of inputs and constants, from their seed."""

from __future__ import annotations

import numpy as np

from ..graph import Graph, Source

#: Distance between the seeds of the first and second set of inputs.
_OTHER = 1_000_003


def array(source: Source, which: int = 0) -> np.ndarray:
    """The elements of a source in its dtype; `which` numbers the set of inputs.

    Seed 0 gives small round numbers, all others the whole mantissa, uniform between low and high.
    Integers are drawn between four times low and four times high.
    """
    shape, dtype = source.type.shape, np.dtype(source.type.dtype)
    if source.data is not None:
        return np.array(source.data, dtype).reshape(shape)
    size = source.type.size
    if dtype.kind == "b":
        low, high = 0.0, 1.0
    elif dtype.kind in "iu":
        low, high = np.ceil(source.low * 4), np.floor(source.high * 4)
    else:
        low, high = source.low, source.high
    if source.seed == 0:
        # Steps of 7 in a cycle of 17: neighbours differ, and rows of most lengths do too.
        position = (np.arange(size) * 7 + 3 * (which + 1)) % 17 / 16
        unit = 0.25 if dtype.kind == "f" else 1.0
        flat = np.clip(np.round((low + position * (high - low)) / unit) * unit, low, high)
    else:
        rng = np.random.default_rng([source.seed + which * _OTHER, size])
        flat = low + rng.random(size) * (high - low)
        if dtype.kind != "f":
            flat = np.round(flat)
    return flat.astype(dtype).reshape(shape)


def constants(graph: Graph) -> dict[str, np.ndarray]:
    return {s.name: array(s) for s in graph.constants}


def inputs(graph: Graph, which: int) -> dict[str, np.ndarray]:
    """One set of inputs: set 0 is A, set 1 is B."""
    return {s.name: array(s, which) for s in graph.inputs}
