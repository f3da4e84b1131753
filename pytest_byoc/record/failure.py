"""The data of a failure in report.json beyond its message, from which the page draws it."""

from __future__ import annotations

import math
from typing import Any

from ..core.graph import Source, TensorType
from ..examination.outcome import Verdict
from .findings import likewise, others, picture, where_wrong
from .process_output import printed_lines, raising_frame, stack_lines, vendor_frame
from .source import graph_text

#: Largest number of nodes of a graph that is drawn; a larger one is in the bundle alone.
MOST_NODES = 40
#: Characters that are kept of a text from the vendor's code.
_LONGEST = 2000
_NUMBERS = ("expected", "bound", "actual", "llvm")
_OPTIONAL = ("also", "likewise", "where", "picture", "changes")
_PLAIN = ("output", "name", "index", "outside", "elements", "executor", "actual_type", "expected_type")


def details(verdict: Verdict) -> dict[str, Any]:
    """Returns the first finding of a failing verdict as report.json has it: the definition
    `details` of report.schema.json says what each field holds. Numbers that JSON cannot write are
    "nan", "inf" and "-inf"."""
    finding = verdict.findings[0]
    found: dict[str, Any] = {"kind": finding.kind}
    found.update({k: finding.details[k] for k in _PLAIN if finding.details.get(k) is not None})
    found.update({k: _number(finding.details[k]) for k in _NUMBERS if k in finding.details})
    exception = finding.details.get("exception")
    if exception:
        frame = raising_frame(exception.get("frames", [])) or {}
        found["raised"] = {
            **{k: frame[k] for k in ("file", "line", "function", "text") if k in frame},
            "message": str(exception["message"])[:_LONGEST],
        }
    last = vendor_frame(finding.details.get("frames", []))
    if last:
        found["died_in"] = {k: last[k] for k in ("file", "line", "function", "text")}
    lines = [*printed_lines(finding.details), *stack_lines(finding.details)]
    printed = [line.removeprefix("  | ") for line in lines[2:]]
    if printed:
        found["printed"] = [line[:_LONGEST] for line in printed]
    found["also"] = [text[:_LONGEST] for text in others(verdict.findings)]
    found["likewise"] = likewise(verdict.findings)
    found["where"] = where_wrong(finding)
    found["changes"] = list(finding.details.get("changes", ()))
    found["picture"] = picture(finding)
    return {key: value for key, value in found.items() if value or key not in _OPTIONAL}


def shown(verdict: Verdict, ir: str) -> dict[str, Any]:
    """Returns a verdict's graph as the page draws it: the definition `shown` of report.schema.json
    says what each field holds. For a graph of more than MOST_NODES operators it is {"operators": n}
    alone."""
    graph = verdict.graph
    if len(graph.nodes) > MOST_NODES:
        return {"operators": len(graph.nodes)}
    placement = verdict.placement or (None,) * len(graph.nodes)

    def value(name: str, type_: TensorType) -> dict[str, str]:
        return {"name": name, "type": str(type_)}

    def sources(found: tuple[Source, ...]) -> list[dict[str, str]]:
        return [value(s.name, s.type) for s in found]

    return {
        "operators": len(graph.nodes),
        "text": graph_text(graph, ir),
        "inputs": sources(graph.inputs),
        "constants": sources(graph.constants),
        "nodes": [
            {
                "op": node.op,
                "inputs": list(node.inputs),
                "outputs": [value(o, t) for o, t in zip(node.outputs, node.types)],
                "region": region,
            }
            for node, region in zip(graph.nodes, placement)
        ],
        "outputs": list(graph.outputs),
    }


def _number(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (bool, int, float)) else str(value)
