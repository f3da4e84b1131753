"""What report.json must look like (docs/reference/report-json.md), as far as a program can rely on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..examination.outcome import OUTCOMES
from ..record.target_record import SCHEMA

_TOP = {"schema": str, "seed": str, "settings": dict, "session": dict, "gate": dict}
_TARGET = {
    "target": str, "ir": str, "versions": dict, "outcomes": dict, "graphs": int, "subgraphs": int,
    "offloaded_share": (int, float), "cells": list, "failures": list, "excused": list, "cases": dict,
    "failed_checks": dict, "notes": dict, "not_checked": list, "patterns": dict, "fragmentation": dict,
    "corpus": dict, "onnx": dict,
}
_SPEED = {"case": str, "operators": list, "target_us": (int, float), "llvm_us": (int, float)}
_MAPPINGS = {
    "outcomes": int, "versions": str, "patterns": str, "corpus": str, "onnx": str, "notes": list,
    "failed_checks": list,
}
_CELL = {
    "operator": str, "dtype": str, "generated": int, "offloaded": int, "passed": int, "failed": int,
    "inconclusive": int, "failed_by": dict,
}
_FAILURE = {
    "id": str, "check": str, "stage": str, "outcome": str, "operators": list, "message": str, "case": str,
    "graph": str, "command": str, "count": int, "bundle": str, "details": dict, "shown": dict,
}
_CAUSE = {"id": str, "failures": list, "tests": int, "operators": list, "dtypes": list}
_EXCUSED = {
    "kind": str, "case": str, "check": str, "outcome": str, "message": str, "reason": str, "issue": str,
    "expires": str, "line": int, "count": int,
}
_SHOWN = {"inputs": list, "constants": list, "nodes": list, "outputs": list, "text": str}
_TEXT = {"what": str, "file": str, "text": str}
_NODE = {"op": str, "inputs": list, "outputs": list}


def problems(report: Any) -> list[str]:
    """What is wrong with a report, one line each; fields that are not known are not looked at."""
    if not isinstance(report, dict):
        return [f"expected an object, found {_kind(report)}"]
    if report.get("schema") != SCHEMA:
        return [f"expected the schema {SCHEMA!r}, found {report.get('schema')!r}"]
    return [*_fields(report, _TOP, ""), *_gate(report.get("gate")), *_targets(report)]


def _targets(report: Mapping[str, Any]) -> Iterator[str]:
    targets = report.get("targets", [report])
    if not isinstance(targets, list) or not targets:
        yield f"targets: expected a list of objects, found {_kind(targets)}"
        return
    for i, target in enumerate(targets):
        yield from _target(target, f"targets[{i}]." if "targets" in report else "")


def _target(target: Any, where: str) -> Iterator[str]:
    missing = list(_fields(target, _TARGET, where))
    yield from missing
    if missing:
        return
    shapes: dict[str, Mapping[str, Any]] = {
        "cells": _CELL, "failures": _FAILURE, "causes": _CAUSE, "excused": _EXCUSED, "speed": _SPEED,
    }
    for name, shape in shapes.items():
        # Of a report of an earlier version some are missing.
        for i, item in enumerate(target.get(name, [])):
            yield from _fields(item, shape, f"{where}{name}[{i}].")
    if "held" in target:
        yield from _fields(target, {"held": dict}, where)
    for name, kind in _MAPPINGS.items():
        yield from _values(target[name], kind, f"{where}{name}")
    for outcome in (set(target["outcomes"]) | set(map(str, target["cases"].values()))) - set(OUTCOMES):
        yield f"{where}outcomes: there is no outcome {outcome!r}"
    fragmentation = {"graphs_by_subgraphs": dict, "split": int, "boundary_bytes": int}
    yield from _fields(target["fragmentation"], fragmentation, f"{where}fragmentation.")
    for i, failure in enumerate(target["failures"]):
        yield from _texts(failure, f"{where}failures[{i}].")
        shown = failure.get("shown") if isinstance(failure, dict) else None
        if isinstance(shown, dict) and "text" in shown:
            yield from _shown(shown, f"{where}failures[{i}].shown.")


def _texts(failure: Any, where: str) -> Iterator[str]:
    """What a report of an earlier version has none of."""
    if not isinstance(failure, dict):
        return
    texts = failure.get("texts", [])
    for i, text in enumerate(texts if isinstance(texts, list) else [texts]):
        yield from _fields(text, _TEXT, f"{where}texts[{i}].")
    details = failure.get("details")
    if isinstance(details, dict) and details.get("picture") is not None:
        yield from _fields(details["picture"], {"rows": list, "group": int}, f"{where}details.picture.")


def _shown(shown: Mapping[str, Any], where: str) -> Iterator[str]:
    wrong = list(_fields(shown, _SHOWN, where))
    yield from wrong
    if wrong:
        return
    for name in ("inputs", "constants"):
        for i, value in enumerate(shown[name]):
            yield from _fields(value, {"name": str, "type": str}, f"{where}{name}[{i}].")
    for i, node in enumerate(shown["nodes"]):
        wrong = list(_fields(node, _NODE, f"{where}nodes[{i}]."))
        yield from wrong
        for value in [] if wrong else node["outputs"]:
            yield from _fields(value, {"name": str, "type": str}, f"{where}nodes[{i}].outputs.")


def _gate(gate: Any) -> Iterator[str]:
    if isinstance(gate, dict):
        yield from _fields(gate, {"exit": int, "problems": list, "notes": list}, "gate.")
        problems = gate.get("problems")
        for i, problem in enumerate(problems if isinstance(problems, list) else []):
            yield from _fields(problem, {"text": str, "items": list}, f"gate.problems[{i}].")


def _fields(value: Any, shape: Mapping[str, Any], where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where.rstrip('.')}: expected an object, found {_kind(value)}"
        return
    for name, kind in shape.items():
        if name not in value:
            yield f"{where}{name}: is missing"
        elif not isinstance(value[name], kind) or isinstance(value[name], bool):
            wanted = kind.__name__ if isinstance(kind, type) else "number"
            yield f"{where}{name}: expected {wanted}, found {_kind(value[name])}"


def _values(mapping: Mapping[str, Any], kind: type, where: str) -> Iterator[str]:
    for name, value in mapping.items():
        if not isinstance(value, kind) or isinstance(value, bool):
            yield f"{where}[{name!r}]: expected {kind.__name__}, found {_kind(value)}"


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__
