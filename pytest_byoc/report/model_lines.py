"""Says what a session tells of whole models, for the terminal and the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .words import counted


def size(number: float) -> str:
    """Returns a number with three digits and the prefix of its power of 1000."""
    power = min(int(math.log10(number) // 3), 4) if number >= 1000 else 0
    return f"{number / 1000**power:.3g}{' kMGT'[power]}".replace(" ", "")


def in_words(model: Mapping[str, Any]) -> list[str]:
    """Returns what is told of a model, as lines."""
    of, inside = model["operators"], model["offloaded"]
    text = f"{model['case']}: {model['outcome']}"
    if model["no_bound"]:
        return [f"{text}; {no_bound(model)}"]
    text += f"; {inside} of {of} operators offloaded"
    if model["multiply_adds"]:
        share = model["multiply_adds_offloaded"] / model["multiply_adds"]
        text += f", {share:.0%} of {size(model['multiply_adds'])} multiply-adds"
    text += f", in {counted(model['subgraphs'], 'subgraph')}"
    if model["smallest"] < model["subgraphs"]:
        text += f" ({model['smallest']} would do)"
    lines = [f"{text}; {size(model['boundary_bytes'])}B cross their boundaries in a run"]
    lines += [f"  left to TVM: {e['operator']} ({e['count']}): {e['why']}" for e in model["left"]]
    if model["extents"]:
        chosen = ", ".join(f"{name} = {extent}" for name, extent in model["extents"].items())
        lines.append(f"  extents that were open: {chosen}")
    return lines


def no_bound(model: Mapping[str, Any]) -> str:
    """Returns how a model is judged that has an operator without a bound, and why it has; "" for others."""
    if not model.get("no_bound"):
        return ""
    return f"{model.get('judged') or 'no bound is known'}: {model['no_bound']}"


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
            "left": [f"{e['operator']} ({e['count']}): {e['why']}" for e in model["left"]],
            "no_bound": no_bound(model),
        })
    return found
