"""Says what a session tells of whole models, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .words import counted


def size(number: float) -> str:
    """Returns a number with three digits and the prefix of its power of 1000."""
    power = min(int(math.log10(number) // 3), 4) if number >= 1000 else 0
    return f"{number / 1000**power:.3g}{' kMGT'[power]}".replace(" ", "")


#: The most lines in the terminal on operators that are left to TVM, and on values that cross a boundary.
_MOST_LEFT, _MOST_CUTS = 12, 3


def in_words(model: Mapping[str, Any]) -> list[str]:
    """Returns what is told of a model, as lines."""
    of, inside = model["operators"], model["offloaded"]
    text = f"{model['case']}: {model['outcome']}"
    if model["no_bound"]:
        return [f"{text}; no bound is known: {model['no_bound']}"]
    text += f"; {inside} of {of} operators offloaded"
    if model["multiply_adds"]:
        share = model["multiply_adds_offloaded"] / model["multiply_adds"]
        text += f", {share:.0%} of {size(model['multiply_adds'])} multiply-adds"
    text += f", in {counted(model['subgraphs'], 'subgraph')}"
    if model["smallest"] < model["subgraphs"]:
        text += f" ({model['smallest']} would do)"
    lines = [f"{text}; {size(model['boundary_bytes'])}B cross their boundaries in a run"]
    left = [f"  left to TVM: {text}" for text in map(_left, model["left"])]
    lines += [*left[:_MOST_LEFT], *_more(len(left) - _MOST_LEFT)]
    lines += [f"  crosses a boundary: {_cut(cut)}" for cut in model.get("cuts", ())[:_MOST_CUTS]]
    if model["extents"]:
        chosen = ", ".join(f"{name} = {extent}" for name, extent in model["extents"].items())
        lines.append(f"  extents that were open: {chosen}")
    return lines


def _more(number: int) -> Iterator[str]:
    if number > 0:
        yield f"  left to TVM: {number} more in report.json"


def _left(entry: Mapping[str, Any]) -> str:
    obstacle = f": {entry['obstacle']}" if entry.get("obstacle") else ""
    return f"{entry['operator']} ({entry['count']}): {entry['why']}{obstacle}"


def _cut(cut: Mapping[str, Any]) -> str:
    alike = f" and {cut['count'] - 1} alike" if cut["count"] > 1 else ""
    ends = f"from {_ends([cut['from']])} to {_ends(cut['to'])}"
    return f"%{cut['value']} {cut['type']}{alike}, {size(cut['bytes'])}B: {ends}"


def _ends(ends: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(
        end["operator"] if end["region"] is None else f"{end['operator']} (S{end['region'] + 1})"
        for end in ends
    )


def rows(models: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows of the page's table of models."""
    found = []
    for model in models:
        total = model.get("multiply_adds", 0)
        share = f"{model['multiply_adds_offloaded'] / total:.0%} of {size(total)}" if total else ""
        found.append({
            "case": model["case"], "outcome": model["outcome"],
            "offloaded": f"{model['offloaded']} of {model['operators']}", "multiply_adds": share,
            "subgraphs": model["subgraphs"], "smallest": model.get("smallest", model["subgraphs"]),
            "boundary": f"{size(model.get('boundary_bytes', 0))}B",
            "left": [_left(e) for e in model["left"]],
            "cuts": [
                {**cut, "maker": _ends([cut["from"]]), "readers": _ends(cut["to"])}
                for cut in model.get("cuts", ())
            ],
            "drawing": model.get("drawing"),
            "no_bound": model.get("no_bound", ""),
        })
    return found
