"""What a session tells of a whole model: how much of it is offloaded, in how many regions, and what is
not, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..checks import dynamic
from ..core.graph import Graph, Node
from ..core.openings import sizes_in_words
from ..examination.examiner import Examiner
from ..examination.outcome import Verdict
from ..operators import OPERATORS
from ..record import measured
from .model_cuts import cuts
from .model_drawing import drawing
from .model_import import Imported
from .obstacles import Reason, reasons

#: How a model is judged that has an operator without a bound.
BY_FLOAT64 = "judged by LLVM in float64 beside float32"


def multiply_adds(graph: Graph, node: Node) -> int:
    """Returns the number of products that a node adds up: of a convolution or a product of matrices; 0 for
    other operators."""
    record = OPERATORS.get(node.op)
    if record is None or not (record.contraction or record.quantized_product) or len(node.inputs) < 2:
        return 0
    operand, weight = (graph.type_of(name) for name in node.inputs[:2])
    if "transpose" in node.op and "conv" in node.op:
        return operand.size * weight.size // max(weight.shape[0], 1)
    if "channels" in node.attrs:
        return node.types[0].size * weight.size // max(int(node.attrs["channels"]), 1)
    inner = operand.shape[-2] if node.attrs.get("transpose_a") else operand.shape[-1]
    return node.types[0].size * inner


def facts(case: str, verdict: Verdict, imported: Imported, examiner: Examiner) -> dict[str, Any]:
    """Returns what the reports tell of a model (`model` in report.schema.json)."""
    graph, offloaded = imported.graph, verdict.offloaded or (False,) * len(imported.graph.nodes)
    work = [multiply_adds(graph, node) for node in graph.nodes]
    left = [position for position, inside in enumerate(offloaded) if not inside]
    why = {} if imported.reason else reasons(examiner.partitions.survey, examiner.workers.ir, imported, left)
    counts = Counter((graph.nodes[position].op, why.get(position, Reason(""))) for position in left)
    places = _numbered(verdict.placement or (None,) * len(graph.nodes))
    return {
        "case": case, "outcome": verdict.outcome, "operators": len(graph.nodes), "offloaded": sum(offloaded),
        "multiply_adds": sum(work), "multiply_adds_offloaded": sum(w for w, o in zip(work, offloaded) if o),
        "subgraphs": verdict.regions, "smallest": verdict.smallest, "boundary_bytes": verdict.boundary_bytes,
        "extents": dict(imported.chosen), "open_extents": _open_extents(verdict, imported),
        "no_bound": imported.reason,
        "judged": BY_FLOAT64 if imported.by_float64 else "",
        "left": [
            {"operator": op, "count": count, "why": reason.why, "obstacle": reason.obstacle}
            for (op, reason), count in counts.most_common()
        ],
        "cuts": [] if imported.reason else cuts(graph, places),
        "drawing": None if imported.reason else drawing(graph, places),
        **_speed(case, verdict),
    }


def _speed(case: str, verdict: Verdict) -> dict[str, Any]:
    """Returns the measurement of a model, if one was made; no time of wrong results is told."""
    if verdict.speed is None or verdict.failed:
        return {}
    return {"speed": measured.as_dict(case, verdict, verdict.speed)}


def not_imported(case: str, reason: str) -> dict[str, Any]:
    """Returns what the reports tell of a model that could not be imported."""
    return {
        "case": case, "outcome": "not-imported", "operators": 0, "offloaded": 0, "subgraphs": 0, "left": [],
        "not_imported": reason,
    }


def _open_extents(verdict: Verdict, imported: Imported) -> str:
    """Returns how the model was run with open extents, or why it was not; "" where no axis is open."""
    if imported.opening is None:
        return f"not compiled with open extents: {imported.not_opened}" if imported.not_opened else ""
    if not any(verdict.evidence.target.facts(dynamic.fact(0))):
        check = f"{dynamic.CHECK.id}: "
        told = [text.partition(": ")[2] for text in verdict.not_checked if text.startswith(check)]
        return f"not run with open extents: {'; '.join(told) or 'the run ended before'}"
    sizes = sizes_in_words(imported.opening.larger, imported.opening.extents)
    return f"also compiled with open extents, and run with these and with {sizes}"


def _numbered(placement: Sequence[int | None]) -> list[int | None]:
    """Returns for each node the number of its region, or None; regions are numbered as they come."""
    numbers = {place: n for n, place in enumerate(dict.fromkeys(p for p in placement if p is not None))}
    return [None if place is None else numbers[place] for place in placement]
