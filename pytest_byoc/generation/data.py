"""Makes the elements of inputs and constants from their seeds."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from ..core.graph import Graph, Source
from ..operators.record import FLOATS

#: The difference between the seeds of the first and the second set of inputs.
_OTHER = 1_000_003
#: The largest number of sets between set A and set B.
STEPS = 3
#: In every set of inputs a tensor begins and ends with the same elements: _ALIKE at each end, but
#: at most the part _PART of the tensor. So a target cannot tell by a few elements whether it has
#: seen a tensor before.
_ALIKE, _PART = 16, 0.25
#: Tensors with fewer elements differ throughout.
_FEW = 8


def numpy_dtype(name: str) -> np.dtype:
    """Returns NumPy's dtype of that name; bfloat16 comes from ml_dtypes."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def array(source: Source, which: int = 0, index: int = 0) -> np.ndarray:
    """Returns the elements of a source in its dtype. which: the number of the set of inputs. index:
    the number of the source among those of seed 0 in its graph, whose elements should differ too.

    Sets differ, except in the first and the last elements. Seed 0 gives small round numbers; all
    other seeds give numbers with a full mantissa, uniform between `low` and `high`. Integers lie
    between `low` and `high`, both included. Given elements may be the strings "nan", "inf" and
    "-inf", because JSON has no numbers for these values.
    """
    shape, dtype = source.type.shape, numpy_dtype(source.type.dtype)
    floating = source.type.dtype in FLOATS
    if source.data is not None:
        # The conversion goes by float64, which accepts the strings, or by int64, which holds
        # integers that float64 cannot.
        return np.array(source.data, np.float64 if floating else np.int64).astype(dtype).reshape(shape)
    size, low, high = source.type.size, source.low, source.high
    if source.seed == 0:
        # Steps of 7 in a cycle of 17 make neighbours differ, and rows of most lengths too.
        position = (np.arange(size) * 7 + 3 * (which + 1) + 5 * index) % 17 / 16
        unit = 0.25 if floating else 1.0
        flat = np.clip(np.round((low + position * (high - low)) / unit) * unit, low, high)
    else:
        rng = np.random.default_rng([source.seed + which * _OTHER, size])
        flat = low + rng.random(size) * (high - low)
        if not floating:
            flat = np.round(flat)
    if which and size >= _FEW:
        alike = min(_ALIKE, int(size * _PART))
        first = array(source, index=index).reshape(-1).astype(flat.dtype)
        flat[:alike], flat[-alike:] = first[:alike], first[-alike:]
    return flat.astype(dtype).reshape(shape)


def constants(graph: Graph) -> dict[str, np.ndarray]:
    return _arrays(graph, graph.constants)


def inputs(graph: Graph, which: int) -> dict[str, np.ndarray]:
    """Returns one set of inputs: set 0 is A, set 1 is B."""
    return _arrays(graph, graph.inputs, which)


def input_sets(graph: Graph, between: bool = False) -> list[dict[str, np.ndarray]]:
    """Returns the sets A and B; with `between`, also sets that mix the two. Of these, the first has
    B's values for the first input or inputs, and each further one for more inputs; there are at
    most STEPS, and one for two inputs."""
    a, b = inputs(graph, 0), inputs(graph, 1)
    names, steps = list(a), min(len(a) - 1, STEPS) if between else 0
    changed = [names[: -(-len(names) * step // (steps + 1))] for step in range(1, steps + 1)]
    return [a, b, *({n: (b if n in some else a)[n] for n in names} for some in changed)]


def _arrays(graph: Graph, sources: Sequence[Source], which: int = 0) -> dict[str, np.ndarray]:
    plain = [s.name for s in graph.sources() if s.seed == 0]
    return {s.name: array(s, which, 0 if s.seed else plain.index(s.name)) for s in sources}
