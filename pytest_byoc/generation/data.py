"""Elements of inputs and constants, from their seed."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from ..core.graph import Graph, Source
from ..operators.record import FLOATS

#: Distance between the seeds of the first and second set of inputs.
_OTHER = 1_000_003
#: Sets between the two, at most.
STEPS = 3
#: Tensors begin and end alike in all sets of inputs, by so many elements, but by this part of them at most:
#: by a few elements a target cannot tell whether it has seen one before.
_ALIKE, _PART = 16, 0.25
#: Those of fewer differ throughout.
_FEW = 8


def numpy_dtype(name: str) -> np.dtype:
    """NumPy's dtype of that name; bfloat16 is ml_dtypes'."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def array(source: Source, which: int = 0, turn: int = 0) -> np.ndarray:
    """The elements of a source in its dtype; `which` numbers the set of inputs, `turn` the sources of seed 0
    in a graph, which are not to be alike either.

    Sets differ, but for the first and the last elements. Seed 0 gives small round numbers, all others
    the whole mantissa, uniform between low and high; integers lie between low and high too, both
    included. Given elements may be the strings "nan", "inf" and "-inf", which JSON has no numbers for.
    """
    shape, dtype = source.type.shape, numpy_dtype(source.type.dtype)
    floating = source.type.dtype in FLOATS
    if source.data is not None:
        # By way of float64, which takes the strings, and int64, which float64 cannot hold.
        return np.array(source.data, np.float64 if floating else np.int64).astype(dtype).reshape(shape)
    size, low, high = source.type.size, source.low, source.high
    if source.seed == 0:
        # Steps of 7 in a cycle of 17: neighbours differ, and rows of most lengths do too.
        position = (np.arange(size) * 7 + 3 * (which + 1) + 5 * turn) % 17 / 16
        unit = 0.25 if floating else 1.0
        flat = np.clip(np.round((low + position * (high - low)) / unit) * unit, low, high)
    else:
        rng = np.random.default_rng([source.seed + which * _OTHER, size])
        flat = low + rng.random(size) * (high - low)
        if not floating:
            flat = np.round(flat)
    if which and size >= _FEW:
        alike = min(_ALIKE, int(size * _PART))
        first = array(source, turn=turn).reshape(-1).astype(flat.dtype)
        flat[:alike], flat[-alike:] = first[:alike], first[-alike:]
    return flat.astype(dtype).reshape(shape)


def constants(graph: Graph) -> dict[str, np.ndarray]:
    return _arrays(graph, graph.constants)


def inputs(graph: Graph, which: int) -> dict[str, np.ndarray]:
    """One set of inputs: set 0 is A, set 1 is B."""
    return _arrays(graph, graph.inputs, which)


def input_sets(graph: Graph, between: bool = False) -> list[dict[str, np.ndarray]]:
    """Sets A and B; and, if asked for, those between them: of 2 inputs with B's first, of more with B's first
    ones, more in each set, in STEPS sets at most."""
    a, b = inputs(graph, 0), inputs(graph, 1)
    names, steps = list(a), min(len(a) - 1, STEPS) if between else 0
    changed = [names[: -(-len(names) * step // (steps + 1))] for step in range(1, steps + 1)]
    return [a, b, *({n: (b if n in some else a)[n] for n in names} for some in changed)]


def _arrays(graph: Graph, sources: Sequence[Source], which: int = 0) -> dict[str, np.ndarray]:
    plain = [s.name for s in graph.sources() if s.seed == 0]
    return {s.name: array(s, which, 0 if s.seed else plain.index(s.name)) for s in sources}
