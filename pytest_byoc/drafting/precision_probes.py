"""Products that tell in which precision a target computes: results that only a lower one can give.

Run by `drafting`, for a target of which nothing is declared yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..config.effort import ONE, Effort
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

#: Products, the first that a target takes being run.
PRODUCTS = ("nn.dense", "matmul", "nn.batch_matmul", "nn.conv2d")
#: Numbers of terms: float16 does not count on from 2048, bfloat16 from 256.
_MANY, _FEW = 4096, 8
#: Operands that tfloat32 and float16 round to 1, and that bfloat16 does, but they do not.
_FINE, _COARSE = 1 + 2.0**-12, 1 + 2.0**-9


@dataclass(frozen=True)
class Found:
    """keys: of the table, by name, as TOML values. why: what was seen, or why there is nothing to say."""

    keys: Mapping[str, Any]
    why: str


def find(examiner: Examiner, taken: Mapping[str, list[str]]) -> Found:
    """What a target would have to declare for its products to be within their bounds. taken: dtypes of the
    operators that it takes."""
    sums: dict[str, str] = {}
    said: list[str] = []
    contraction: str | None = None
    looked_at = False
    for dtype in SUMMED:
        operator = next((o for o in PRODUCTS if dtype in taken.get(o, ())), None)
        counted = operator and _run(examiner, _graph(operator, dtype, examiner.workers.ir, _MANY, 1.0))
        if not operator or not counted:
            continue
        looked_at = True
        if _outside(counted):
            most = max(float(np.max(a.astype(np.float64))) for a in _outputs(counted))
            sums[dtype] = "bfloat16" if most < _MANY / 8 else "float16"
            said.append(f"{operator} of {dtype} counts ones to {most:g} where there are more")
        elif dtype == "float32":
            graphs = [_graph(operator, dtype, examiner.workers.ir, _FEW, x) for x in (_FINE, _COARSE)]
            fine, coarse = (_run(examiner, graph) for graph in graphs)
            if fine and _outside(fine):
                contraction = "bfloat16" if coarse and _outside(coarse) else "tfloat32"
                said.append(f"{operator} of float32 loses what {contraction} has no digits for")
    if not looked_at:
        return Found({}, "it takes none of " + ", ".join(PRODUCTS) + " as they are asked for")
    if not said:
        return Found({}, "")
    precision = Precision(accumulate_dtype=sums, contraction_dtype=contraction)
    for dtype in sums or ["float32"]:
        operator = next(o for o in PRODUCTS if dtype in taken.get(o, ()))
        usual = _run(examiner, _graph(operator, dtype, examiner.workers.ir, _FEW, None))
        if usual and _outside(usual, precision):
            return Found({}, "; ".join(said) + ", but declared as lower precision that is not all: "
                         f"{operator} of {dtype} is outside the wider bound too")
    keys: dict[str, Any] = {"accumulate-dtype": sums} if sums else {}
    if contraction:
        keys["contraction-dtype"] = contraction
    return Found(keys, "; ".join(said))


def _graph(operator: str, dtype: str, ir: str, terms: int, value: float | None) -> Graph | None:
    """A product of so many terms, or of the windows of a convolution that has as many. value: of one element
    of each sum of the first operand, the others being 0, or of all if it is 1; None: any values."""
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
    """All of them ones, or the first along an axis a value and the others zero; None: drawn."""
    if value is None or value == 1.0:
        return None if value is None else np.ones(shape).ravel().tolist()
    found = np.zeros(shape)
    found[tuple(0 if i == axis else slice(None) for i in range(len(shape)))] = value
    return found.ravel().tolist()


#: What is needed to see a graph's outputs.
_EFFORT = Effort(("offload", "numerics"), ONE, with_llvm=False)


def _run(examiner: Examiner, graph: Graph | None) -> Evidence | None:
    """The evidence on a graph for one executor; None where the target does not offload it, or fails."""
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
    """Whether an output is outside its bound, that of a precision if one is given."""
    expected = evidence.expected if precision is None else _expected(evidence, precision)
    pairs = zip(_outputs(evidence), expected[0])
    return any(a.shape != b.shape or bool(compare(a, b).outside.any()) for a, b in pairs)
