"""Has the reference worker import a whole model, and holds what the host knows of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..config.models import Model
from ..core.graph import Graph, Node, Source, TensorType
from ..core.job_report import JobReport
from ..core.openings import OpenExtent, Opening
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
    frontend calls functions of TIR. opening: the open extents, and the same model with larger ones, whose
    weights are `larger_constants`; None where no axis is open, or `not_opened` says why there is none.
    by_float64: whether LLVM in float64 judges it, since no bound can.
    """

    graph: Graph
    constants: dict[str, np.ndarray]
    file: Path
    reason: str
    chosen: dict[str, int]
    functions: frozenset[int] = frozenset()
    opening: Opening | None = None
    larger_constants: dict[str, np.ndarray] = field(default_factory=dict)
    not_opened: str = ""
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
        graph = _with_ranges(graph, model)
        functions, opened = frozenset(value["functions"]), value["open"]
        found = Imported(graph, constants, into, value["reason"], value["chosen"], functions)
        if opened is None or opened["reason"]:
            return replace(found, not_opened="" if opened is None else opened["reason"])
        extents = [OpenExtent(*fields) for fields in opened["extents"]]
        larger = _with_ranges(Graph.from_dict(opened["graph"]), model)
        return replace(
            found, opening=Opening(extents, graph, larger),
            larger_constants={**constants, **_arrays(opened)},
        )
    raise NotImported(f"model {model.name} ({model.path}): {_why(report)}")


def _why(report: JobReport) -> str:
    for message in report.raised():
        raised = message["raised"]
        if raised["type"] == "Failure":
            return f"{raised['message']}{out_of_memory(raised, report)}"
        return f"{raised['type']}{exception_text(raised['message'])}{out_of_memory(raised, report)}"
    end = report.end or {}
    if report.died == "hung":
        return f"TVM did not import it within {end.get('limit', 0):.0f} s (--byoc-timeout)"
    used_up = f" (it had used up {end['memory'] >> 20} MiB: --byoc-memory)" if end.get("used_up") else ""
    return f"the process that imported it {report.ended}{used_up}"


def _graph(name: str, value: Mapping[str, Any]) -> tuple[Graph, dict[str, np.ndarray]]:
    if not value["reason"]:
        return Graph.from_dict(value["graph"]), _arrays(value)
    inputs = tuple(Source(n, _type(t)) for n, t in value["inputs"].items())
    types = tuple(map(_type, value["outputs"]))
    outputs = tuple(f"out{n}" for n in range(len(types)))
    node = Node(f"{WHOLE}{name}", tuple(s.name for s in inputs), {}, outputs, types)
    return Graph(inputs, (), (node,), outputs), {}


def _arrays(value: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns constants; large ones are mapped from the files that the worker has written."""
    stored = {name: np.load(path, mmap_mode="r") for name, path in value["stored"].items()}
    return {**value["constants"], **stored}


def _type(text: str) -> TensorType:
    dtype, _, extents = text.rstrip("]").partition("[")
    return TensorType(tuple(int(e) for e in extents.split(",") if e), dtype)


def _with_ranges(graph: Graph, model: Model) -> Graph:
    """Returns the graph with the ranges of its inputs' elements."""
    inputs = tuple(_input(source, number, graph, model) for number, source in enumerate(graph.inputs))
    return replace(graph, inputs=inputs)


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
