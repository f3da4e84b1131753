"""Prepares the content of the page as plain data for its templates: all counts and words are made
here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from ..core.graph import DTYPES
from ..core.irs import IR_TITLES
from ..examination.outcome import (
    FAILURES,
    INCONCLUSIVE,
    NOT_OFFLOADED,
    ORACLE_SUSPECT,
    OUTCOMES,
    PASS,
    REFERENCE_WRONG,
)
from ..examination.stages import EXIT_PARTITION_ONLY, in_words
from ..record.target_record import COUNTS, is_offloaded
from . import check_table
from .words import needed, title

#: Largest number of items of a folded list, and number of causes whose smallest graph is unfolded
#: at first. report.json has all items.
_LISTED, _OPEN = 200, 8
#: Largest number of operators of a graph whose text is unfolded beside its drawing; the text has
#: the attributes.
_SMALL = 4
_STATES = {
    "pass": ("✓", "all offloaded nodes passed"),
    "part": ("◐", "some passed, the rest could not be judged or shares a failing graph"),
    "none": ("?", "offloaded, but none passed"),
    "fail": ("✗", "failures"),
    "host": ("·", "generated, never offloaded"),
}
_NOTES = {
    REFERENCE_WRONG: "TVM's own LLVM build is wrong or fails; not held against the target",
    ORACLE_SUSPECT: "Target and LLVM agree and contradict the oracle; not held against the target",
    INCONCLUSIVE: "Most elements cannot be judged",
}


def page(report: Mapping[str, Any]) -> dict[str, Any]:
    """Returns everything that `templates/report.html` shows."""
    dicts = report.get("targets", [report])
    level = str(report["settings"].get("level", ""))
    targets = [_target(t, i, level) for i, t in enumerate(dicts)]
    session, gate = report["session"], report["gate"]
    return {
        "title": " and ".join(f"{t['name']} in {t['ir']}" for t in targets) or "no target",
        "targets": targets,
        "when": " · ".join(_when(report, session, dicts)),
        "verdict": _verdict(gate["exit"], targets),
        "reasons": list(_reasons(gate, targets)),
        "gate_notes": gate["notes"],
        "facts": list(_facts(report, session)),
        "files": session.get("files", []),
        "sources": session.get("sources", ""),
        "states": _STATES,
        "meanings": check_table.MEANINGS,
        "schema": report["schema"],
    }


def count(n: int | float) -> str:
    """Returns a number with a narrow space between its thousands."""
    return f"{n:,}".replace(",", "\u202f")


def in_bytes(n: float) -> str:
    """Returns an amount of memory with its unit."""
    for unit in ("bytes", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "bytes" or n >= 10 else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} GiB"


# --- the head ------------------------------------------------------------------------------------


def _verdict(exit_code: int, targets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    word = {
        0: "Passed", 1: "Failed", 2: "Interrupted", 5: "Nothing was run",
        EXIT_PARTITION_ONLY: "Passed as far as it could be checked: partition stage only",
    }.get(exit_code)
    graphs = sum(t["graphs"] for t in targets)
    passed = sum(t["counts"][PASS] for t in targets)
    failing = sum(t["counts"][o] for t in targets for o in FAILURES)
    failures = sum(len(t["causes"]) for t in targets)
    if not graphs:
        text = "No graph was examined."
    else:
        said = [f"{count(graphs)} {_plural(graphs, 'graph')} examined, {count(passed)} passed"]
        if failing:
            said.append(f"{count(failing)} failed")
        text = ", ".join(said)
        if failures:
            text += f" ({_number(failures, 'likely cause')})"
        text += "."
    return {
        "word": word or f"Ended with {exit_code}", "exit": exit_code, "text": text,
        "style": {0: "pass", 1: "fail"}.get(exit_code, "none"),
    }


def _reasons(gate: Mapping[str, Any], targets: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields the reasons for the exit code: failures, problems of the gate, excused failures."""
    for t in targets:
        if t["failures"]:
            found = t["causes"]
            yield _reason(
                "fail",
                f"{t['name']}: {_number(len(found), 'likely cause')} of failures that nothing excuses",
                [f"{c['title']}: {c['what']} ({_number(c['tests'], 'test')})" for c in found],
            )
    for problem in gate["problems"]:
        yield _reason("fail", problem["text"], problem["items"])
    for t in targets:
        for kind, words in (("waived", "waived"), ("known", "known from the baseline")):
            n = sum(e["kind"] == kind for e in t["excused"])
            if n:
                yield _reason("none", f"{t['name']}: {_number(n, 'failure')} {words}")
    if gate["exit"] == 0:
        yield _reason("pass", "Every check held, or what failed is known, and something was offloaded.")
    elif gate["exit"] == EXIT_PARTITION_ONLY:
        yield _reason("none", "Every check of the partition stage held; the later stages were not run.")
    elif gate["exit"] == 2:
        yield _reason("none", "The session was interrupted; the gate did not judge.")
    elif not any(t["failures"] for t in targets) and not gate["problems"]:
        yield _reason("fail", "No graph decided it: the terminal's output says what did.")


def _reason(style: str, text: str, items: Sequence[str] = ()) -> dict[str, Any]:
    return {"style": style, "text": text, "items": items}


def _when(
    report: Mapping[str, Any], session: Mapping[str, Any], targets: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yields the parts of the line under the title: TVM, date, duration, seed."""
    yield from dict.fromkeys(f"TVM {t['versions']['tvm']}" for t in targets if "tvm" in t["versions"])
    if "started" in session and "finished" in session:
        yield session["started"].replace("T", " ").replace("Z", " UTC")
        yield "took " + _span(session["started"], session["finished"])
    yield f"seed {report['seed']}"


def _facts(report: Mapping[str, Any], session: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("started", "finished"):
        if name in session:
            yield name, session[name].replace("T", " ").replace("Z", " UTC")
    yield "seed", report["seed"]
    settings = report["settings"]
    if "level" in settings:
        yield "level", settings["level"]
    for name, unit in (("max_examples", ""), ("max_nodes", ""), ("timeout", " s")):
        if name in settings:
            yield name.replace("_", "-"), f"{settings[name]:g}{unit}"
    if "memory_bytes" in settings:
        yield "memory", f"{settings['memory_bytes'] >> 20} MiB" if settings["memory_bytes"] else "no limit"
    for name, version in session.get("host", {}).items():
        yield name if name in ("pytest-byoc", "platform") else f"{name} (host)", version


def _span(started: str, finished: str) -> str:
    times = [datetime.fromisoformat(t.replace("Z", "+00:00")) for t in (started, finished)]
    seconds = int((times[1] - times[0]).total_seconds())
    hours, minutes = seconds // 3600, seconds // 60 % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds % 60} s" if minutes else f"{seconds} s"


# --- one target ----------------------------------------------------------------------------------


def _target(t: Mapping[str, Any], position: int, level: str) -> dict[str, Any]:
    causes = list(_causes(t))
    counts = {o: t["outcomes"].get(o, 0) for o in OUTCOMES}
    unmatched = {n: reason for n, reason in t["patterns"].items() if reason}
    return {
        "id": f"t{position}",
        "name": t["target"],
        "ir": IR_TITLES.get(t["ir"], t["ir"]),
        "versions": t["versions"],
        "graphs": t["graphs"],
        # Reports of earlier releases lack this field.
        "partition_only": in_words(t["partition_only"]) if t.get("partition_only") else "",
        "counts": counts,
        "outcomes": list(_outcomes(counts)),
        "share": t["offloaded_share"],
        "heat": _heat(t["cells"]),
        "never": _never(t["cells"]),
        "causes": causes,
        "failures": [f for cause in causes for f in cause["failures"]],
        "checks": list(check_table.rows(t, level)),
        "excused": t["excused"][:_LISTED],
        "more_excused": max(len(t["excused"]) - _LISTED, 0),
        "patterns": len(t["patterns"]),
        "unmatched": unmatched,
        # Unmatched patterns have a table of their own.
        "not_checked": [
            s for s in t["not_checked"] if not s.startswith(tuple(f"pattern {n} is " for n in unmatched))
        ],
        "fragmentation": _fragmentation(t),
        "speed": _speed(t.get("speed", [])),
        "notes": [
            {"text": text, "items": notes[:_LISTED], "more": max(len(notes) - _LISTED, 0)}
            for text, notes in ((text, t["notes"].get(o, [])) for o, text in _NOTES.items())
            if notes
        ],
        "onnx": _onnx(t["onnx"]),
    }


def _outcomes(counts: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    total = sum(counts.values())
    for outcome, n in counts.items():
        if n:
            style = "pass" if outcome == PASS else "fail" if outcome in FAILURES else "none"
            style = "host" if outcome == NOT_OFFLOADED else style
            sign = {"pass": "✓", "fail": "✗", "none": "?", "host": "·"}[style]
            yield {"name": outcome, "n": n, "share": 100 * n / total, "style": style, "sign": sign}


def _state(cell: Mapping[str, Any]) -> str:
    if cell["failed"]:
        return "fail"
    if not cell["offloaded"]:
        return "host"
    if not cell["passed"]:
        return "none"
    return "pass" if cell["passed"] == cell["offloaded"] else "part"


def _heat(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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
        states = {_state(c) for c in mine}
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
        "passing": sum(_state(c) in ("pass", "part") for c in offloaded),
        "failing": sum(bool(c["failed"]) for c in offloaded),
    }


def _cell(cell: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if cell is None:
        return None
    state = _state(cell)
    n = {"fail": cell["failed"], "host": 0, "none": cell["offloaded"]}.get(state, cell["passed"])
    numbers = ", ".join(f"{cell[k]} {k}" for k in COUNTS if cell[k])
    return {
        "state": state, "sign": _STATES[state][0], "n": (n if n < 1000 else f"{n // 1000}k") if n else "",
        "title": f"{cell['operator']} {cell['dtype']}: {numbers}",
    }


def _short(dtype: str) -> str:
    for long, short in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i")):
        if dtype.startswith(long):
            return short + dtype.removeprefix(long)
    return dtype


def _never(cells: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Returns the operators of which nothing was offloaded and nothing failed, with their
    dtypes."""
    operators = {c["operator"] for c in cells if is_offloaded(c)}
    found: dict[str, list[str]] = {}
    for c in cells:
        if c["operator"] not in operators:
            found.setdefault(c["operator"], []).append(_short(c["dtype"]))
    return [(operator, " ".join(dtypes)) for operator, dtypes in sorted(found.items())]


# --- failures by cause ---------------------------------------------------------------------------


def _causes(t: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
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
        more = f" and {_number(others, 'other operator')}" if others else ""
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
    yield _number(cause["tests"], "test")
    if len(cause["operators"]) > 1:
        yield _number(len(cause["operators"]), "operator")
    if len(cause["dtypes"]) > 1:
        yield " and ".join(cause["dtypes"])
    if len(failures) > 1:
        yield f"{len(failures)} graphs of it below"


# --- one failure ---------------------------------------------------------------------------------


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
        "size": _number(operators, "operator") + needed(f.get("each_needed"), operators) if operators else "",
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


# --- fragmentation, speed, ONNX -------------------------------------------------------------------------


def _fragmentation(t: Mapping[str, Any]) -> dict[str, Any] | None:
    found = t["fragmentation"]
    by = {int(k): n for k, n in found["graphs_by_subgraphs"].items() if int(k)}
    if not by:
        return None
    graphs, most = sum(by.values()), max(by.values())
    operators = sum(c["offloaded"] for c in t["cells"])
    return {
        "graphs": graphs, "subgraphs": t["subgraphs"], "per_graph": t["subgraphs"] / graphs,
        "operators": operators / t["subgraphs"] if t["subgraphs"] else 0.0,
        "split": found["split"],
        "merges": found.get("merges", True), "above": found.get("above_smallest", 0),
        "worst": found.get("worst"),
        "bytes": found["boundary_bytes"], "bytes_per_graph": found["boundary_bytes"] / graphs,
        "bars": [{"subgraphs": k, "graphs": n, "share": 100 * n / most} for k, n in sorted(by.items())],
    }


def _speed(measured: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the times of target and LLVM; the graphs in which the target is relatively slowest
    come first."""
    rows = [
        {
            "case": s["case"], "target": f"{s['target_us']:.1f}", "llvm": f"{s['llvm_us']:.1f}",
            "ratio": s["target_us"] / s["llvm_us"] if s["llvm_us"] else 0.0,
        }
        for s in measured
    ]
    return sorted(rows, key=lambda row: -row["ratio"])


def _onnx(results: Mapping[str, str]) -> dict[str, Any] | None:
    """Counts ONNX node tests by outcome, and lists those that failed or could not be judged."""
    counts: dict[str, int] = {}
    for result in results.values():
        kind = result.split(":")[0]
        counts[kind] = counts.get(kind, 0) + 1
    if not counts:
        return None
    quiet = (PASS, NOT_OFFLOADED, "left out")
    listed = [(name, r) for name, r in sorted(results.items()) if r.split(":")[0] not in quiet]
    return {
        "counts": sorted(counts.items(), key=lambda item: -item[1]),
        "listed": listed[:_LISTED],
        "more": max(len(listed) - _LISTED, 0),
    }


def _plural(n: int, noun: str) -> str:
    return noun if n == 1 else noun + "s"


def _number(n: int, noun: str) -> str:
    return f"{count(n)} {_plural(n, noun)}"
