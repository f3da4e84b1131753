"""Has the reference worker import a whole model, and holds what the host knows of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..config.models import Model
from ..core.graph import Graph, Node, Source, TensorType
from ..core.job_report import JobReport
from ..examination.decision import out_of_memory
from ..examination.signature import exception_text
from ..examination.workers import Workers
from ..generation import data

#: The prefix of the operator that stands for a model which is no graph of records.
WHOLE = "model."


class NotImported(Exception):
    """Raised for a model that cannot be imported; the message says why."""


@dataclass(frozen=True)
class Imported:
    """An imported model.

    graph: its operators, or one node `model.NAME` where it is no graph of records. constants: the weights by
    name. file: the file with TVM's module. reason: why it is no graph of records; "" if it is. chosen: the
    extents that open axes were given, by name. functions: the positions of the operators for which the
    frontend calls functions of TIR. by_float64: whether LLVM in float64 judges it, since no bound can.
    """

    graph: Graph
    constants: dict[str, np.ndarray]
    file: Path
    reason: str
    chosen: dict[str, int]
    functions: frozenset[int] = frozenset()
    by_float64: bool = False

    def inputs(self, which: int) -> dict[str, np.ndarray]:
        """Returns one set of inputs."""
        return data.inputs(self.graph, which)


def load(workers: Workers, model: Model, folder: Path) -> Imported:
    """Returns a model, imported by the reference worker. Raises NotImported.

    folder: an existing one, for the module.
    """
    into = folder / "model"
    job = {
        "kind": "model-import", "path": str(model.path), "function": model.function, "into": str(into),
        "inputs": list(model.inputs), "shapes": model.shapes,
    }
    report = workers.ask_reference(job)
    for _, value in report.facts("model"):
        unknown = set(model.ranges) - set(value["inputs"])
        if unknown:
            raise NotImported(
                f"model {model.name}: ranges name {', '.join(sorted(unknown))}; its inputs are "
                f"{', '.join(value['inputs'])}"
            )
        graph, constants = _graph(model.name, value)
        graph = replace(graph, inputs=tuple(_input(s, n, graph, model) for n, s in enumerate(graph.inputs)))
        functions = frozenset(value["functions"])
        return Imported(graph, constants, into, value["reason"], value["chosen"], functions)
    raise NotImported(f"model {model.name} ({model.path}): {_why(report)}")


def _why(report: JobReport) -> str:
    for message in report.raised():
        raised = message["raised"]
        if raised["type"] == "Failure":
            return str(raised["message"])
        return f"{raised['type']}{exception_text(raised['message'])}{out_of_memory(raised, report)}"
    end = report.end or {}
    used_up = f" (it had used up {end['memory'] >> 20} MiB: --byoc-memory)" if end.get("used_up") else ""
    return f"the process that imported it {report.ended}{used_up}"


def _graph(name: str, value: Mapping[str, Any]) -> tuple[Graph, dict[str, np.ndarray]]:
    if not value["reason"]:
        return Graph.from_dict(value["graph"]), dict(value["constants"])
    inputs = tuple(Source(n, _type(t)) for n, t in value["inputs"].items())
    types = tuple(map(_type, value["outputs"]))
    outputs = tuple(f"out{n}" for n in range(len(types)))
    node = Node(f"{WHOLE}{name}", tuple(s.name for s in inputs), {}, outputs, types)
    return Graph(inputs, (), (node,), outputs), {}


def _type(text: str) -> TensorType:
    dtype, _, extents = text.rstrip("]").partition("[")
    return TensorType(tuple(int(e) for e in extents.split(",") if e), dtype)


#: The operators that read elements by their numbers: the positions of the operand and of the numbers.
_LOOKUPS = {"take": (0, 1), "gather": (0, 1), "embedding": (0, 1)}


def _input(source: Source, number: int, graph: Graph, model: Model) -> Source:
    """Returns an input with the range of its elements: the model's, or that of rows of a table that it
    selects, or its dtype's."""
    source = replace(source, seed=1 + number)
    if source.name in model.ranges:
        low, high = model.ranges[source.name]
        return replace(source, low=low, high=high)
    if source.type.dtype == "bool":
        return replace(source, low=0.0, high=1.0)
    for node in graph.nodes:
        operand, numbers = _LOOKUPS.get(node.op, (0, 0))
        if numbers and len(node.inputs) > numbers and node.inputs[numbers] == source.name:
            axis = node.attrs.get("axis") or 0
            extent = graph.type_of(node.inputs[operand]).shape[axis]
            return replace(source, low=0.0, high=float(max(extent - 1, 0)))
    return replace(source, low=0.0) if source.type.dtype.startswith("uint") else source
