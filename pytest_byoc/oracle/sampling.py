"""Expected outputs of deep graphs, whose derived bound would tell nothing, by sampled rounding errors.

The derived bound adds the largest errors of all operators, each at its worst. Through fifty layers it
exceeds the values themselves. Here each operator's result is moved at random within that operator's own
bound, and the graph is computed on from there (Monte Carlo arithmetic: Parker, "Monte Carlo Arithmetic",
1997). The largest deviation of an output over all samples and elements, times FACTOR, is how far a
correct implementation may be from it; the derived bound counts where it is smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ..core.graph import Graph
from ..reference_kernels import FULL, Bounded, Precision
from ..reference_kernels.bounded import UNIT_ROUNDOFF
from .evaluation import values

#: The number of samples, that for graphs of more than LARGE elements, and the multiple of their largest
#: deviation that is allowed.
SAMPLES, FEW, LARGE, FACTOR = 6, 2, 5_000_000, 4.0


def expected(
    graph: Graph, arrays: Mapping[str, np.ndarray], precision: Precision = FULL,
    lowered: Sequence[bool] | None = None,
) -> tuple[list[Bounded], dict[str, Bounded]]:
    """Returns the outputs with the errors that are allowed, and all values with their derived bounds.

    The arguments, and what is raised, are those of `evaluation.evaluate`.
    """
    found = values(graph, arrays, precision, lowered)
    deviations = dict.fromkeys(graph.outputs, 0.0)
    for number in range(SAMPLES if graph.elements <= LARGE else FEW):
        random = np.random.default_rng([11, number])
        sample = values(graph, arrays, precision, lowered, partial(_moved, random))
        for name in graph.outputs:
            apart = np.abs(_float(sample[name]) - _float(found[name]))
            finite = apart[np.isfinite(apart)]
            deviations[name] = max(deviations[name], float(finite.max(initial=0.0)))
    return [_allowed(found[name], deviations[name]) for name in graph.outputs], found


def _float(x: Bounded) -> np.ndarray:
    return x.value.astype(np.float64)


def _moved(random: np.random.Generator, x: Bounded) -> Bounded:
    """Returns a result with each element moved within its bound, and taken as exact from there on."""
    known = np.isfinite(x.error) & ~x.ambiguous
    error = np.where(known, x.error, 0.0)
    value = x.value
    if x.is_float:
        value = value + random.uniform(-1.0, 1.0, value.shape) * error
    elif x.dtype != "bool" and error.any():
        value = value + np.rint(random.uniform(-1.0, 1.0, value.shape) * error).astype(np.int64)
    unknown = np.zeros(value.shape, bool)
    return replace(x, value=value, error=np.zeros(value.shape), ambiguous=unknown, narrow=None)


def _allowed(x: Bounded, deviation: float) -> Bounded:
    """Returns an output with the error that is allowed."""
    error = np.full(x.shape, FACTOR * deviation)
    finite = np.isfinite(x.value) if x.is_float else np.ones(x.shape, bool)
    if x.is_float:
        # The result is rounded once in any case.
        error += 2 * UNIT_ROUNDOFF[x.dtype] * np.abs(np.where(finite, x.value, 0.0))
    bound = np.where(x.ambiguous, np.inf, x.error)
    return replace(x, error=np.minimum(bound, error), ambiguous=x.ambiguous & ~finite)
