"""A graph with the data with which it is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..checks import each_input
from ..config.effort import Effort
from ..core.graph import Graph
from ..evidence.evidence import OpenEvidence
from ..generation import data
from ..reference_kernels import Bounded


@dataclass(frozen=True)
class Subject:
    """The subject of an examination.

    inputs: sets of inputs, each {name: array}. module: TVM's JSON of the module, if it is not
    lowered from the graph. expected: the outputs for each set of inputs, if they do not come from
    the oracle. model: the file of the imported module of a whole model, which its graph describes; ""
    for other graphs. opened: empty evidence on the module with open extents, where a model has some; its
    larger graph has its expected outputs.
    """

    graph: Graph
    inputs: Sequence[dict[str, np.ndarray]]
    constants: Mapping[str, np.ndarray]
    module: str | None = None
    expected: Sequence[Sequence[Bounded]] | None = None
    model: str = ""
    opened: OpenEvidence | None = None

    @classmethod
    def of(cls, graph: Graph, effort: Effort) -> Subject:
        """Returns the graph with its generated data, which are the same every time."""
        inputs = data.input_sets(graph, between=each_input.CHECK.id in effort.checks)
        return cls(graph, inputs, data.constants(graph))
