"""The page's table of checks: the meaning of each, its failures, and the number of graphs it held
on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..checks import CHECKS
from ..checks.base import EVERY
from ..examination.outcome import PASS

#: The check of crashes, hangs and exceptions has no file of its own.
_PROCESS = {
    "id": "process",
    "rule": "No stage kills the process, raises, or takes longer than its limit.",
    "why": "Crashes, hangs, exceptions and calls of `exit`, in each stage.",
    "where": EVERY,
}
#: The meaning of each check: id, rule, why, and the graphs that it is made on.
MEANINGS = [
    _PROCESS, *({"id": c.id, "rule": c.rule, "why": c.why, "where": c.where or c.made_on} for c in CHECKS),
]
KNOWN = frozenset(meaning["id"] for meaning in MEANINGS)


def rows(target: Mapping[str, Any], level: str) -> Iterator[dict[str, Any]]:
    """Yields a row for each check, for a target of report.json: failures, cells that failed it,
    excused failures, and the number of passing graphs that it was made on ("held"; None if a report
    of an earlier release lacks it). "not_made" is the text for a check that was made on none."""
    rules = {meaning["id"]: meaning["rule"] for meaning in MEANINGS}
    for failure in target["failures"]:
        rules.setdefault(failure["check"], "")
    held = target.get("held")
    if held is not None:
        held = {"process": target["outcomes"].get(PASS, 0), **held}
    for check, rule in rules.items():
        yield {
            "id": check, "rule": rule, "known": check in KNOWN,
            "held": None if held is None else held.get(check, 0),
            "not_made": _not_made(check, target["ir"], level),
            "failures": sum(f["check"] == check for f in target["failures"]),
            "excused": sum(e["check"] == check for e in target["excused"]),
            "cells": sum(bool(c["failed_by"].get(check)) for c in target["cells"]),
        }


def _not_made(check: str, ir: str, level: str) -> str:
    where = next((meaning["where"] for meaning in MEANINGS if meaning["id"] == check), "")
    if ir == "relax" and "Relay" in where and "Relax" not in where:
        return "not made in Relax"
    made_on_all = any(c.id == check and c.made_on == EVERY for c in CHECKS) or check == _PROCESS["id"]
    return "not made" if made_on_all or level in ("", "full") else f"not made at level {level}"
