"""Prepares the page's table of operators by dtypes, and its list of operators that the target never
offloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.graph import DTYPES
from ..record.target_record import COUNTS, is_offloaded

#: The sign and the meaning of each state of a cell.
STATES = {
    "pass": ("✓", "all offloaded nodes passed"),
    "part": ("◐", "some passed, the rest could not be judged or shares a failing graph"),
    "none": ("?", "offloaded, but none passed"),
    "fail": ("✗", "failures"),
    "host": ("·", "generated, never offloaded"),
}


def state_of(cell: Mapping[str, Any]) -> str:
    """Returns the state of a cell, a key of STATES."""
    if cell["failed"]:
        return "fail"
    if not cell["offloaded"]:
        return "host"
    if not cell["passed"]:
        return "none"
    return "pass" if cell["passed"] == cell["offloaded"] else "part"


def table(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the table of operators by dtypes, without operators of which nothing was offloaded
    and nothing failed. Failing operators come first."""
    operators = {c["operator"] for c in cells if is_offloaded(c)}
    found = {(c["operator"], c["dtype"]): c for c in cells if c["operator"] in operators}
    known = {d: i for i, d in enumerate(DTYPES)}
    dtypes = sorted({d for _, d in found}, key=lambda d: (known.get(d, len(known)), d))
    rows = []
    for operator in operators:
        row = [found.get((operator, d)) for d in dtypes]
        mine = [c for c in row if c is not None]
        states = {state_of(c) for c in mine}
        rows.append(
            {
                "operator": operator,
                "cells": [_cell(c) for c in row],
                "numbers": mine,
                "bad": "fail" in states or "none" in states,
                "order": (not any(c["failed"] for c in mine), operator),
            }
        )
    rows.sort(key=lambda r: r["order"])
    offloaded = [c for c in found.values() if is_offloaded(c)]
    return {
        "dtypes": [{"name": d, "short": _short(d)} for d in dtypes],
        "rows": rows,
        "offloaded": len(offloaded),
        "passing": sum(state_of(c) in ("pass", "part") for c in offloaded),
        "failing": sum(bool(c["failed"]) for c in offloaded),
    }


def _cell(cell: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if cell is None:
        return None
    state = state_of(cell)
    n = {"fail": cell["failed"], "host": 0, "none": cell["offloaded"]}.get(state, cell["passed"])
    numbers = ", ".join(f"{cell[k]} {k}" for k in COUNTS if cell[k])
    return {
        "state": state, "sign": STATES[state][0], "n": (n if n < 1000 else f"{n // 1000}k") if n else "",
        "title": f"{cell['operator']} {cell['dtype']}: {numbers}",
    }


def _short(dtype: str) -> str:
    for long, short in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i")):
        if dtype.startswith(long):
            return short + dtype.removeprefix(long)
    return dtype


def never_offloaded(cells: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Returns the operators of which nothing was offloaded and nothing failed, with their
    dtypes."""
    operators = {c["operator"] for c in cells if is_offloaded(c)}
    found: dict[str, list[str]] = {}
    for c in cells:
        if c["operator"] not in operators:
            found.setdefault(c["operator"], []).append(_short(c["dtype"]))
    return [(operator, " ".join(dtypes)) for operator, dtypes in sorted(found.items())]
