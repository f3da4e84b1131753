"""Prepares the page's failures, grouped by likely cause."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import check_table
from .quantities import number
from .words import needed, title

#: Number of causes whose smallest graph is unfolded at first.
_OPEN = 8
#: Largest number of operators of a graph whose text is unfolded beside its drawing; the text has
#: the attributes.
_SMALL = 4


def causes(t: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the likely causes in their order, each with its failures. A failure that no cause
    names, as in a report of an earlier release, is a cause of its own."""
    left = {f["id"]: f for f in t["failures"]}
    named = [
        (cause, [left.pop(id) for id in cause["failures"] if id in left]) for cause in t.get("causes", [])
    ]
    alone = [({"tests": f["count"], "operators": f["operators"], "dtypes": []}, [f]) for f in left.values()]
    for position, (cause, found) in enumerate(pair for pair in (*named, *alone) if pair[1]):
        first = found[0]
        others = len(set(cause["operators"]) - set(first["operators"]))
        more = f" and {number(others, 'other operator')}" if others else ""
        yield {
            "title": title(first["operators"]) + more,
            "what": f"{first['outcome']} in {first['stage']}, check {first['check']}",
            "tests": cause["tests"],
            "extent": ", ".join(_extent(cause, found)),
            "operators": cause["operators"],
            # The first failure has the smallest graph of the cause.
            "failures": [_failure(f, position < _OPEN and f is first) for f in found],
        }


def _extent(cause: Mapping[str, Any], failures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield number(cause["tests"], "test")
    if len(cause["operators"]) > 1:
        yield number(len(cause["operators"]), "operator")
    if len(cause["dtypes"]) > 1:
        yield " and ".join(cause["dtypes"])
    if len(failures) > 1:
        yield f"{len(failures)} graphs of it below"


def _failure(f: Mapping[str, Any], is_open: bool) -> dict[str, Any]:
    details = f["details"]
    operators = f["shown"].get("operators", 0)
    return {
        "id": f["id"], "outcome": f["outcome"], "stage": f["stage"], "check": f["check"],
        "operators": ", ".join(f["operators"]), "count": f["count"], "case": f["case"],
        "message": f["message"], "command": f["command"], "open": is_open,
        "needs": f.get("traits", []), "normalised": f.get("normalised", ""),
        "kind": details.get("kind", ""),
        "drawn": f["shown"] if f["shown"].get("nodes") else None,
        "regions": any(isinstance(n.get("region"), int) for n in f["shown"].get("nodes", [])),
        "size": number(operators, "operator") + needed(f.get("each_needed"), operators) if operators else "",
        "where": _where(details),
        "numbers": list(_numbers(details)),
        "outside": details.get("outside"), "elements": details.get("elements"),
        "raised": details.get("raised"), "died_in": details.get("died_in"),
        "printed": details.get("printed", []),
        "picture_caption": _caption(details),
        "where_wrong": details.get("where", ""), "picture": details.get("picture"),
        "likewise": details.get("likewise", []), "changes": details.get("changes", []),
        "texts": f.get("texts", []), "tried": f.get("tried", ""),
        "known": f["check"] in check_table.KNOWN,
        "also": details.get("also", []), "besides": f.get("besides", []), "cases": f.get("cases", []),
        "bundle": f["bundle"],
        "small": operators <= _SMALL,
        # A report may come from anywhere, so only folders with names of ours become links.
        "link": f["bundle"] if re.fullmatch(r"byoc-failures/[\w-]+", f["bundle"], re.ASCII) else "",
    }


def _caption(details: Mapping[str, Any]) -> str:
    """Returns the caption of the picture of the wrong elements."""
    rows = (details.get("picture") or {}).get("rows", [])
    pooled = sum(map(len, rows)) != details.get("elements")
    return "red: wrong; a row is one along the last axis" + ("; pale: some of several" if pooled else "")


def _where(details: Mapping[str, Any]) -> str:
    if "output" not in details:
        return ""
    name = f" (%{details['name']})" if "name" in details else ""
    at = f" at {details['index']}" if details.get("index") else ""
    return f"output {details['output']}{name}{at}"


def _numbers(details: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yields (name, value, style) of the numbers of a failure, in reading order."""
    if "expected" not in details or "actual" not in details:
        return
    expected, actual, bound = details["expected"], details["actual"], details.get("bound")
    yield "expected", f"{expected}", ""
    if bound is not None:
        yield "bound", f"± {bound:.4g}" if isinstance(bound, float) else f"± {bound}", ""
    yield "target", f"{actual}", "bad"
    if "llvm" in details:
        yield "LLVM", f"{details['llvm']}", ""
    plain = [v for v in (expected, actual, bound) if isinstance(v, (int, float)) and not isinstance(v, bool)]
    if len(plain) == 3:
        distance = abs(actual - expected)
        times = f", {distance / bound:.3g} times the bound" if bound else ""
        yield "distance", f"{distance:.4g}{times}", ""
