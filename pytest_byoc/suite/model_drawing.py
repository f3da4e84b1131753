"""Describes the drawing of a model: its operators folded into boxes, and the values between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..core.graph import Graph
from ..evidence.placement import type_bytes
from ..record.model_boxes import Box, Run, boxes, edges

#: The most inputs, and outputs, that are drawn one by one.
_ENDS = 4
#: The most runs of operators that a box names, and the most kinds of operators in each.
_RUNS, _KINDS = 8, 6


def drawing(graph: Graph, places: Sequence[int | None]) -> dict[str, Any]:
    """Returns what the drawing of a model shows (`drawing` in report.schema.json). places: for each node its
    region, or None."""
    makers = {name: position for position, node in enumerate(graph.nodes) for name in node.outputs}
    reads = [[makers[name] for name in node.inputs if name in makers] for node in graph.nodes]
    operators = [node.op for node in graph.nodes]
    found = boxes(reads, places, operators)
    own = {node: position for position, box in enumerate(found) for node in box.nodes}
    passed = edges(found, reads)
    readers: dict[str, set[int]] = {}
    for position, node in enumerate(graph.nodes):
        for name in node.inputs:
            readers.setdefault(name, set()).add(own[position])

    def size(nodes: set[int], reader: int) -> int:
        names = (name for node in nodes for name in graph.nodes[node].outputs)
        return sum(type_bytes(str(graph.type_of(n))) for n in names if reader in readers.get(n, ()))

    return {
        "boxes": [_box(box, operators) for box in found],
        "edges": [
            {"from": a, "to": b, "bytes": size(nodes, b)} for (a, b), nodes in sorted(passed.items())
        ],
        "inputs": _ends("input", graph, {s.name: readers.get(s.name, set()) for s in graph.inputs}),
        "outputs": _ends("output", graph, {n: {own[makers[n]]} for n in graph.outputs if n in makers}),
    }


def _box(box: Box, operators: Sequence[str]) -> dict[str, Any]:
    runs, regions = box.once, {run.region for run in box.runs} - {None}
    return {
        "times": box.times,
        "operators": sum(len(run.nodes) for run in box.runs),
        "offloaded": sum(len(run.nodes) for run in box.runs if run.region is not None),
        "regions": len(regions),
        "runs": [_run(run, operators) for run in runs[:_RUNS]],
        "more_runs": max(len(runs) - _RUNS, 0),
    }


def _run(run: Run, operators: Sequence[str]) -> dict[str, Any]:
    counts = Counter(operators[node] for node in run.nodes).most_common()
    return {
        "region": run.region,
        "operators": [{"operator": op, "count": count} for op, count in counts[:_KINDS]],
        "more": sum(count for _, count in counts[_KINDS:]),
    }


def _ends(what: str, graph: Graph, at: dict[str, set[int]]) -> list[dict[str, Any]]:
    """Returns the inputs or outputs of a model, with the boxes that read or make them; many as one."""
    if len(at) <= _ENDS:
        return [
            {"what": f"{what} %{name}", "type": str(graph.type_of(name)), "boxes": sorted(positions)}
            for name, positions in at.items()
        ]
    return [{"what": f"{len(at)} {what}s", "type": "", "boxes": sorted(set().union(*at.values()))}]
