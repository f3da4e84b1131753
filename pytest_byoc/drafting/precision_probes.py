"""Determines the precision in which a target computes products, by graphs whose results differ with
it.

`drafting` runs these for a target that has not declared its precision yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..config.effort import FIRST, Effort
from ..core.graph import Graph, TensorType
from ..evidence.comparison import compare
from ..evidence.evidence import Evidence
from ..examination.examiner import Examiner
from ..examination.subject import Subject
from ..generation.builder import Builder
from ..generation.systematic import default_case
from ..operators.record import TypeRuleError
from ..oracle import evaluation
from ..reference_kernels import Bounded, Precision
from ..worker.declared_precision import SUMMED

#: Products in the order of preference: the first that the target offloads is run.
PRODUCTS = ("nn.dense", "matmul", "nn.batch_matmul", "nn.conv2d")
#: Numbers of terms of a sum. A sum of ones stays at 2048 in float16, and at 256 in bfloat16.
_MANY, _FEW = 4096, 8
#: Operands just above 1: tfloat32, float16 and bfloat16 round the first to 1, only bfloat16 the
#: second.
_FINE, _COARSE = 1 + 2.0**-12, 1 + 2.0**-9


@dataclass(frozen=True)
class DraftedPrecision:
    """The result of `find`.

    keys: the keys for the target's table with their TOML values. why: the observations behind them,
    or the reason why there are none."""

    keys: Mapping[str, Any]
    why: str


def find(examiner: Examiner, offloaded: Mapping[str, list[str]]) -> DraftedPrecision:
    """Returns the precision that a target has to declare for its products to be within their
    bounds.

    offloaded: dtypes of the operators that it offloads, by operator."""
    sums: dict[str, str] = {}
    reasons: list[str] = []
    contraction: str | None = None
    looked_at = False
    for dtype in SUMMED:
        operator = next((o for o in PRODUCTS if dtype in offloaded.get(o, ())), None)
        counted = operator and _run(examiner, _graph(operator, dtype, examiner.workers.ir, _MANY, 1.0))
        if not operator or not counted:
            continue
        looked_at = True
        if _outside(counted):
            most = max(float(np.max(a.astype(np.float64))) for a in _outputs(counted))
            sums[dtype] = "bfloat16" if most < _MANY / 8 else "float16"
            reasons.append(f"{operator} of {dtype} sums {_MANY} or more ones to {most:g}")
        elif dtype == "float32":
            graphs = [_graph(operator, dtype, examiner.workers.ir, _FEW, x) for x in (_FINE, _COARSE)]
            fine, coarse = (_run(examiner, graph) for graph in graphs)
            if fine and _outside(fine):
                contraction = "bfloat16" if coarse and _outside(coarse) else "tfloat32"
                reasons.append(f"{operator} of float32 rounds its operands as {contraction} does")
    if not looked_at:
        why = "the target offloads none of " + ", ".join(PRODUCTS) + " in the form of the probes"
        return DraftedPrecision({}, why)
    if not reasons:
        return DraftedPrecision({}, "")
    precision = Precision(accumulate_dtype=sums, contraction_dtype=contraction)
    for dtype in sums or ["float32"]:
        operator = next(o for o in PRODUCTS if dtype in offloaded.get(o, ()))
        usual = _run(examiner, _graph(operator, dtype, examiner.workers.ir, _FEW, None))
        if usual and _outside(usual, precision):
            declared = f"but even if that precision is declared, {operator} of {dtype} is outside its bound"
            return DraftedPrecision({}, "; ".join((*reasons, declared)))
    keys: dict[str, Any] = {"accumulate-dtype": sums} if sums else {}
    if contraction:
        keys["contraction-dtype"] = contraction
    return DraftedPrecision(keys, "; ".join(reasons))


def _graph(operator: str, dtype: str, ir: str, terms: int, value: float | None) -> Graph | None:
    """Returns the graph of a product, or of a convolution, whose sums have at least that number of
    terms; None if the operator has no such graph.

    value: if 1, all elements are 1; otherwise one element of the first operand in each sum has this
    value and the others are 0, and the second operand is 1. None: drawn values."""
    graph = default_case(operator, dtype, ir).graph
    first, second = (graph.type_of(name) for name in graph.nodes[0].inputs[:2])
    depth = 1
    lead = list(first.shape)
    axis = 1 if operator == "nn.conv2d" else len(lead) - 1
    if operator == "nn.conv2d":
        depth = int(np.prod(second.shape[2:]))
    old, lead[axis] = lead[axis], -(-terms // depth)
    for at in (i for i, extent in enumerate(second.shape) if extent == old):
        other = list(second.shape)
        other[at] = lead[axis]
        b = Builder(seed=1)
        node = graph.nodes[0]
        constant = {s.name for s in graph.constants}
        names = []
        for position, (name, shape) in enumerate(zip(node.inputs, (lead, other))):
            make = b.constant if name in constant else b.input
            type_ = TensorType(tuple(shape), dtype)
            names.append(make(type_, data=_elements(shape, axis, value if position == 0 else value and 1.0)))
        try:
            return b.graph(*b.node(operator, names, node.attrs))
        except TypeRuleError:
            continue
    return None


def _elements(shape: list[int], axis: int, value: float | None) -> Any:
    """Returns the elements of an operand: ones for the value 1; for another value that value in the
    first place along the axis, and zeros elsewhere; None (drawn values) for None."""
    if value is None or value == 1.0:
        return None if value is None else np.ones(shape).ravel().tolist()
    found = np.zeros(shape)
    found[tuple(0 if i == axis else slice(None) for i in range(len(shape)))] = value
    return found.ravel().tolist()


#: The least effort that yields a graph's outputs.
_EFFORT = Effort(("offload", "numerics"), FIRST, with_llvm=False)


def _run(examiner: Examiner, graph: Graph | None) -> Evidence | None:
    """Returns the evidence on a graph for one executor; None if the target does not offload all of
    it, or yields no outputs."""
    if graph is None:
        return None
    evidence, _ = examiner.gather(Subject.of(graph, _EFFORT), _EFFORT)
    return evidence if all(evidence.offloaded()) and _outputs(evidence) else None


def _expected(evidence: Evidence, precision: Precision) -> list[list[Bounded]]:
    values = [{**evidence.constants, **inputs} for inputs in evidence.inputs]
    return [evaluation.evaluate(evidence.graph, v, precision, evidence.may_be_offloaded()) for v in values]


def _outputs(evidence: Evidence) -> list[np.ndarray]:
    found = [value["arrays"] for _, value in evidence.target.facts("outputs") if value["set"] == 0]
    return list(found[0]) if found else []


def _outside(evidence: Evidence, precision: Precision | None = None) -> bool:
    """Returns whether an output is outside its bound, which allows for a declared precision if one
    is given."""
    expected = evidence.expected if precision is None else _expected(evidence, precision)
    pairs = zip(_outputs(evidence), expected[0])
    return any(a.shape != b.shape or bool(compare(a, b).outside.any()) for a, b in pairs)
