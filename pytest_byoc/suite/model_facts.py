"""What a session tells of a whole model: how much of it is offloaded, in how many regions, and what is
not, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..core.graph import Graph, Node
from ..examination.examiner import Examiner
from ..examination.outcome import Verdict
from ..generation.systematic import default_case
from ..operators import OPERATORS
from ..record import measured
from .model_graphs import alone
from .model_import import Imported

#: How a model is judged that has an operator without a bound.
BY_FLOAT64 = "judged by LLVM in float64 beside float32"
#: Why an operator of a model is not offloaded.
OPERATOR = "the target offloads it in no graph of its own"
DTYPE = "not in this dtype"
FORM = "not with these attributes or shapes"
PLACE = "offloaded alone, but not here"
FUNCTION = "TVM's frontend has made a function of TIR of it"


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
    why = _reasons(examiner, imported, left) if not imported.reason else {}
    counts = Counter((graph.nodes[position].op, why.get(position, "")) for position in left)
    return {
        "case": case, "outcome": verdict.outcome, "operators": len(graph.nodes), "offloaded": sum(offloaded),
        "multiply_adds": sum(work), "multiply_adds_offloaded": sum(w for w, o in zip(work, offloaded) if o),
        "subgraphs": verdict.regions, "smallest": verdict.smallest, "boundary_bytes": verdict.boundary_bytes,
        "extents": dict(imported.chosen), "no_bound": imported.reason,
        "judged": BY_FLOAT64 if imported.by_float64 else "",
        "left": [
            {"operator": op, "count": count, "why": reason} for (op, reason), count in counts.most_common()
        ],
        **_speed(case, verdict),
    }


def _speed(case: str, verdict: Verdict) -> dict[str, Any]:
    """Returns the measurement of a model, if one was made; no time of wrong results is told."""
    if verdict.speed is None or verdict.failed:
        return {}
    return {"speed": measured.as_dict(case, verdict, verdict.speed)}


def _reasons(examiner: Examiner, imported: Imported, left: Sequence[int]) -> dict[int, str]:
    """Returns for each operator that is left to TVM, by its position, why it is."""
    survey, ir = examiner.partitions.survey, examiner.workers.ir
    found: dict[int, str] = {}
    for position, partition in zip(left, survey([alone(imported, position) for position in left])):
        node = imported.graph.nodes[position]
        if position in imported.functions:
            found[position] = FUNCTION
        elif partition is not None and partition.regions:
            found[position] = PLACE
        else:
            dtypes = OPERATORS[node.op].dtypes
            usual = survey([default_case(node.op, dtype, ir).graph for dtype in dtypes])
            takes = [dtype for dtype, p in zip(dtypes, usual) if p is not None and p.regions]
            found[position] = FORM if node.types[0].dtype in takes else DTYPE if takes else OPERATOR
    return found
