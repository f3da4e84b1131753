"""A graph with the data that it is run with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..checks import each_input
from ..config.effort import Effort
from ..core.graph import Graph
from ..generation import data
from ..reference_kernels import Bounded


@dataclass(frozen=True)
class Subject:
    """The subject of an examination.

    inputs: sets of inputs, each {name: array}. module: TVM's JSON of the module, where it is not the graph
    that is lowered. expected: for each set of inputs the outputs, where they do not come from the
    oracle."""

    graph: Graph
    inputs: Sequence[dict[str, np.ndarray]]
    constants: Mapping[str, np.ndarray]
    module: str | None = None
    expected: Sequence[Sequence[Bounded]] | None = None

    @classmethod
    def of(cls, graph: Graph, effort: Effort) -> Subject:
        """The graph with its own data, which is the same every time."""
        inputs = data.input_sets(graph, between=each_input.CHECK.id in effort.checks)
        return cls(graph, inputs, data.constants(graph))
