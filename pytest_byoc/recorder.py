"""Keeps what was found: outcomes, cells, failures. Its state is plain data, written as report.json."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .graph import Graph
from .outcome import FAILURES, INCONCLUSIVE, OUTCOMES, PASS, Verdict

SCHEMA = "pytest-byoc/report/1"
#: Nodes that stand for a whole ONNX model: they have an outcome, but no cell.
ONNX = "onnx."
_COUNTS = ("generated", "offloaded", "passed", "failed", "inconclusive")


def failure_id(identity: str, operators: Iterable[str]) -> str:
    """Short and stable: of the check, outcome, stage and kind, and the operators of the graph."""
    text = identity + "|" + ",".join(sorted(operators))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


@dataclass
class Failure:
    """One failure, listed once however many graphs showed it."""

    id: str
    check: str
    stage: str
    outcome: str
    operators: list[str]
    message: str
    case: str
    graph: str
    command: str
    count: int = 1

    def as_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)


@dataclass
class TargetRecord:
    """Everything recorded of one target in one IR."""

    target: str
    ir: str
    versions: dict[str, str]
    not_checked: list[str] = field(default_factory=list)
    #: Arithmetic of lower precision that the target declares, in words.
    precision: str = ""
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    cells: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    regions: int = 0
    graphs: int = 0
    onnx: dict[str, str] = field(default_factory=dict)

    def _cell(self, operator: str, dtype: str) -> dict[str, int]:
        return self.cells.setdefault((operator, dtype), dict.fromkeys(_COUNTS, 0))

    def add(self, verdict: Verdict, case: str) -> None:
        """Counts an example. Failures are told apart by `fail`, with the shrunk graph."""
        self.outcomes[verdict.outcome] += 1
        self.graphs += 1
        self.regions += verdict.regions
        offloaded = verdict.offloaded or (False,) * len(verdict.graph.nodes)
        for node, taken in zip(verdict.graph.nodes, offloaded):
            if node.op.startswith(ONNX):
                continue
            cell = self._cell(node.op, node.types[0].dtype)
            cell["generated"] += 1
            cell["offloaded"] += taken
            cell["passed"] += taken and verdict.outcome == PASS
            cell["inconclusive"] += taken and verdict.outcome == INCONCLUSIVE
        if verdict.outcome not in FAILURES and verdict.notes:
            self.notes.setdefault(verdict.outcome, []).append(f"{case}: {'; '.join(verdict.notes)}")

    def fail(self, verdict: Verdict, case: str, found_in: Graph | None = None) -> tuple[Failure, bool]:
        """Lists a failing (shrunk) graph; the failure, and whether it is a new one.

        found_in: the graph before it was shrunk: its cells are what has failed, of the operators
        that are left in the shrunk one."""
        nodes = (found_in or verdict.graph).nodes
        for op, dtype in {(n.op, n.types[0].dtype) for n in nodes if n.op in verdict.graph.operators}:
            if not op.startswith(ONNX):
                self._cell(op, dtype)["failed"] += 1
        identity = failure_id(verdict.identity, verdict.graph.operators)
        if identity in self.failures:
            self.failures[identity].count += 1
            return self.failures[identity], False
        finding = verdict.findings[0]
        failure = Failure(
            identity, finding.check, finding.stage, verdict.outcome, list(verdict.graph.operators),
            finding.message, case, "", "",
        )
        self.failures[identity] = failure
        return failure, True

    def offload_share(self) -> float:
        """Share of the generated operators that the target runs."""
        generated = sum(c["generated"] for c in self.cells.values())
        return sum(c["offloaded"] for c in self.cells.values()) / generated if generated else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "ir": self.ir,
            "versions": self.versions,
            "precision": self.precision,
            "outcomes": self.outcomes,
            "graphs": self.graphs,
            "subgraphs": self.regions,
            "offloaded_share": round(self.offload_share(), 4),
            "cells": [
                {"operator": op, "dtype": dtype, **counts}
                for (op, dtype), counts in sorted(self.cells.items())
            ],
            "failures": [f.as_dict() for f in self.failures.values()],
            "notes": self.notes,
            "not_checked": self.not_checked,
            "onnx": self.onnx,
        }

    def merge(self, other: dict[str, Any]) -> None:
        """Adds what another process recorded (its `as_dict`)."""
        for outcome, n in other["outcomes"].items():
            self.outcomes[outcome] += n
        self.graphs += other["graphs"]
        self.regions += other["subgraphs"]
        for cell in other["cells"]:
            mine = self._cell(cell["operator"], cell["dtype"])
            for k in _COUNTS:
                mine[k] += cell[k]
        for f in other["failures"]:
            if f["id"] in self.failures:
                self.failures[f["id"]].count += f["count"]
            else:
                self.failures[f["id"]] = Failure(**f)
        for outcome, notes in other["notes"].items():
            self.notes.setdefault(outcome, []).extend(notes)
        self.onnx.update(other["onnx"])
        self.versions = self.versions or other["versions"]
        self.precision = self.precision or other["precision"]
        for text in other["not_checked"]:
            if text not in self.not_checked:
                self.not_checked.append(text)
