"""Draws a whole model, folded into boxes: operators of a region in its colour, others plain."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from .drawing import Box, Edge, cut, drawn
from .model_lines import size
from .words import counted

#: The most characters of a line in a box, and the most lines for one run of operators.
_WIDE, _LINES = 40, 3


def svg(model: Mapping[str, Any]) -> Markup:
    """Returns the drawing of a model. model: `drawing` of a model in report.json."""
    inputs, inner, outputs = model["inputs"], model["boxes"], model["outputs"]
    edges = [(e["from"], e["to"], e["bytes"]) for e in model["edges"]]
    layers = _layers(len(inner), edges)
    boxes = [_box(box, layer) for box, layer in zip(inner, layers)]
    lines = [Edge(a, b, about=f"{size(number)}B") for a, b, number in edges]
    for end in inputs:
        # It stands as near to its first reader as possible.
        layer = min((layers[b] for b in end["boxes"]), default=1) - 1
        lines += [Edge(len(boxes), b) for b in end["boxes"]]
        boxes.append(Box("input", layer, cut(end["what"]), _types(end)))
    for end in outputs:
        layer = max((layers[b] for b in end["boxes"]), default=0) + 1
        lines += [Edge(b, len(boxes)) for b in end["boxes"]]
        boxes.append(Box("output", layer, cut(end["what"]), _types(end)))
    _spread(boxes, lines)
    return drawn(boxes, lines, f"drawing of a model in {counted(len(inner), 'part')}")


def _layers(number: int, edges: Sequence[tuple[int, int, int]]) -> list[int]:
    """Returns the layer of each box, from 1 on; each edge leads to a lower box."""
    layers = [1] * number
    for a, b, _ in sorted(edges, key=lambda edge: edge[1]):
        layers[b] = max(layers[b], layers[a] + 1)
    return layers


def _types(end: Mapping[str, Any]) -> list[str]:
    return [cut(end["type"])] if end["type"] else []


def _spread(boxes: Sequence[Box], edges: Sequence[Edge]) -> None:
    """Sets the places along the side of a box at which its edges end."""
    into: dict[int, list[Edge]] = {}
    for edge in edges:
        into.setdefault(edge.target, []).append(edge)
    for some in into.values():
        for number, edge in enumerate(sorted(some, key=lambda e: boxes[e.source].layer), 1):
            edge.end = number / (len(some) + 1)


def _box(box: Mapping[str, Any], layer: int) -> Box:
    runs, times = box["runs"], box["times"]
    if len(runs) == 1 and not box["more_runs"]:
        (run,) = runs
        named = run["operators"]
        if len(named) == 1 and named[0]["count"] == 1 and not run["more"]:
            title, lines = cut(named[0]["operator"]), []
        else:
            number = sum(one["count"] for one in named) + run["more"]
            title, lines = counted(number, "operator"), list(_wrapped(_listed(run)))
        region, tag = run["region"], "" if run["region"] is None else f"S{run['region'] + 1}"
        if times == 1:
            return Box("node", layer, title, lines, region)
        return Box("several", layer, title, lines, region, f"{tag} … x {times}".lstrip(" …"))
    lines, regions = [], {}
    for run in runs:
        text = list(_wrapped(f"{_where(run, times)}: {_listed(run)}"))
        if run["region"] is not None:
            regions.update(dict.fromkeys(range(len(lines), len(lines) + len(text)), run["region"]))
        lines += text
    if box["more_runs"]:
        left = box["operators"] - box["offloaded"]
        lines.append(f"… in all {box['offloaded']} in {counted(box['regions'], 'subgraph')}, {left} left")
    tag = f"x {times}" if times > 1 else ""
    number = counted(box["operators"] // times, "operator")
    return Box("several", layer, number, lines, label=tag, line_regions=regions)


def _where(run: Mapping[str, Any], times: int) -> str:
    if run["region"] is None:
        return "TVM"
    return f"S{run['region'] + 1}{' …' if times > 1 else ''}"


def _listed(run: Mapping[str, Any]) -> str:
    names = [f"{o['operator']} x{o['count']}" if o["count"] > 1 else o["operator"] for o in run["operators"]]
    return ", ".join([*names, *([f"{run['more']} more"] if run["more"] else [])])


def _wrapped(text: str) -> Iterator[str]:
    lines = textwrap.wrap(text, _WIDE)
    yield from lines[:_LINES]
    if len(lines) > _LINES:
        yield "…"
