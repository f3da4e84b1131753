"""Systematic cases that TVM's own LLVM build cannot judge: it does not compile them, or gets them wrong.

A target may offload them all the same (weights in OHWI, convolutions in bfloat16); its results are
then compared with the oracle alone. For a target that offloads none of them, the time to partition
them is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from ..core.graph import Graph, TensorType
from ..operators import OPERATORS, within
from ..operators.measured import dtypes as runnable
from ..operators.measured import why_not
from ..operators.record import FLOATS, Operator, Parameter, among
from .builder import first
from .single import OneNodeGraph, varied
from .systematic import Case

#: The end of the label of such a case.
SUFFIX = "-without_llvm"
#: Beginnings of the reasons in `measured.json` for dtypes in which nothing can be judged: the IR
#: does not accept the dtype, or hardly any element has a bound narrow enough to tell right from
#: wrong.
_UNKNOWN = ("lower:", "kernel:")


def llvm_fails(graph: Graph, ir: str) -> bool:
    """Returns whether TVM's own build is known to reject an operator, or to get it wrong."""
    for node in graph.nodes:
        lowering = getattr(OPERATORS[node.op], ir)
        if lowering is not None and lowering.is_unbuilt(node.attrs):
            return True
        if node.inputs and why_not(node.op, graph.type_of(node.inputs[0]).dtype, ir) is not None:
            return True
    return False


def cases(operators: Sequence[str], ir: str) -> list[Case]:
    """Returns the cases of the operators that the IR has, in a fixed order."""
    return [c for name in operators if ir in OPERATORS[name].irs() for c in _cases(name, ir)]


@cache
def _cases(name: str, ir: str) -> tuple[Case, ...]:
    by_graph: dict[Graph, Case] = {}
    for label, smoke, one in _labelled(name, ir):
        if one is not None and llvm_fails(one.graph, ir) and one.graph not in by_graph:
            case = Case(f"{name}[{label}{SUFFIX}]", name, one.graph, smoke, without_llvm=True)
            by_graph[one.graph] = case
    return tuple(by_graph.values())


def _labelled(name: str, ir: str) -> Iterator[tuple[str, bool, OneNodeGraph | None]]:
    """Yields (label, whether the case is in level smoke, the graph or None)."""
    record, built = OPERATORS[name], runnable(OPERATORS[name], ir)
    lowering, narrowed = getattr(record, ir), record.supported(ir)
    for chosen in _layouts(narrowed, TensorType(record.shapes[0], built[0])) if lowering.unbuilt else ():
        if lowering.is_unbuilt(chosen):
            fixed = replace(narrowed, parameters=tuple(
                p.narrowed(among(chosen[p.name])) if _is_layout(p) else p for p in narrowed.parameters
            ))
            words = "-".join(chosen[p.name].lower() for p in narrowed.parameters if _is_layout(p))
            for label, one in varied(fixed, built[0]):
                smoke = label == built[0] or "-mixed_" in label
                yield f"{label}-{words}", smoke, one
    for dtype in record.dtypes:
        reason = why_not(name, dtype, ir)
        if reason is not None and dtype in FLOATS and not reason.startswith(_UNKNOWN):
            for label, one in varied(within(name, ir), dtype):
                yield label, label == dtype, one


def _is_layout(parameter: Parameter) -> bool:
    return parameter.name.endswith("layout")


def _layouts(op: Operator, x: TensorType) -> list[dict[str, Any]]:
    """Returns all combinations of layouts that go together, other parameters at their defaults."""
    combined: list[dict[str, Any]] = [{}]
    for parameter in op.parameters:
        grown = []
        for chosen in combined:
            classes = parameter.values(x, chosen)
            every = [value for values in classes.values() for value in values]
            some = every if _is_layout(parameter) else [first(parameter.name, classes)]
            grown += [{**chosen, parameter.name: value} for value in some]
        combined = grown
    return combined
