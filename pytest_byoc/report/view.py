"""Prepares the content of the page as plain data for its templates: all counts and words are made
here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

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
from . import check_table, failure_view, model_lines, operator_table, speed_plot
from .quantities import count, number, plural
from .words import besides_patterns

#: Largest number of items of a folded list; report.json has all items.
_LISTED = 200
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
        "states": operator_table.STATES,
        "meanings": check_table.MEANINGS,
        "schema": report["schema"],
    }


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
        said = [f"{count(graphs)} {plural(graphs, 'graph')} examined, {count(passed)} passed"]
        if failing:
            said.append(f"{count(failing)} failed")
        text = ", ".join(said)
        if failures:
            text += f" ({number(failures, 'likely cause')})"
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
                f"{t['name']}: {number(len(found), 'likely cause')} of failures that nothing excuses",
                [f"{c['title']}: {c['what']} ({number(c['tests'], 'test')})" for c in found],
            )
    for problem in gate["problems"]:
        yield _reason("fail", problem["text"], problem["items"])
    for t in targets:
        for kind, words in (("waived", "waived"), ("known", "known from the baseline")):
            n = sum(e["kind"] == kind for e in t["excused"])
            if n:
                yield _reason("none", f"{t['name']}: {number(n, 'failure')} {words}")
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
    causes = list(failure_view.causes(t))
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
        "heat": operator_table.table(t["cells"]),
        "never": operator_table.never_offloaded(t["cells"]),
        "causes": causes,
        "failures": [f for cause in causes for f in cause["failures"]],
        "checks": list(check_table.rows(t, level)),
        "excused": t["excused"][:_LISTED],
        "more_excused": max(len(t["excused"]) - _LISTED, 0),
        "patterns": len(t["patterns"]),
        "unmatched": unmatched,
        # Unmatched patterns have a table of their own.
        "not_checked": besides_patterns(t["not_checked"], unmatched),
        "fragmentation": _fragmentation(t),
        "speed": speed_plot.section(t.get("speed", [])),
        "models": model_lines.rows(t.get("models", [])),
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


# --- fragmentation, ONNX -------------------------------------------------------------------------


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
