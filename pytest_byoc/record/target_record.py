"""The record of one target: outcomes, cells and failures as plain data, written as report.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.graph import Graph
from ..examination.decision import causes
from ..examination.outcome import FAILURES, INCONCLUSIVE, OUTCOMES, PASS, Verdict, worst
from ..examination.signature import message_key, traits
from ..storage.stored_passes import Passes
from . import measured
from .failure import details, shown
from .listed import Excused, Failure, failure_id
from .sighting import ONNX, Sighting, blamed, cells_of

SCHEMA = "pytest-byoc/report/1"
#: The counts of a cell, in the order of the tables.
COUNTS = ("generated", "offloaded", "passed", "failed", "inconclusive")


def is_offloaded(cell: Mapping[str, Any]) -> bool:
    """Returns whether the target offloads a node of a cell, or failed before that could be seen."""
    return bool(cell["offloaded"] or cell["failed"])


def is_passing(cell: Mapping[str, Any]) -> bool:
    """Returns whether a cell of report.json passes: it is offloaded, a graph of it has passed, and none
    has failed, waived or not."""
    return is_offloaded(cell) and not cell["failed"] and cell["passed"] > 0


def _worse(known: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Returns the graph that exceeds the smallest possible number of subgraphs by more. Of equal
    ones the case decides, not the process that examined it first."""
    found = [graph for graph in (known, other) if graph]
    return min(found, key=lambda g: (g["smallest"] - g["subgraphs"], g["case"]))


@dataclass
class TargetRecord:
    """Everything recorded of one target in one IR. report.schema.json describes most fields."""

    target: str
    ir: str
    versions: dict[str, str]
    not_checked: list[str] = field(default_factory=list)
    #: The lower precision that the target declares, in words.
    precision: str = ""
    #: Why only the partition stage was run, in words; "" if all stages were.
    partition_only: str = ""
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    cells: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    regions: int = 0
    graphs: int = 0
    onnx: dict[str, str] = field(default_factory=dict)
    #: Id of a case to the worst outcome of its graphs.
    cases: dict[str, str] = field(default_factory=dict)
    #: Id of a case to the checks that failed in it.
    failed_checks: dict[str, list[str]] = field(default_factory=dict)
    excused: dict[tuple[str, str], Excused] = field(default_factory=dict)
    #: Id of a graph of the corpus to its outcome. After a colon follows that the graph was removed,
    #: or why it can't be used ("unusable") or does not fit this IR ("left out").
    corpus: dict[str, str] = field(default_factory=dict)
    #: Name of a pattern to why it was never matched; "" if it was.
    patterns: dict[str, str] = field(default_factory=dict)
    #: Number of subgraphs to the number of graphs with so many.
    by_subgraphs: Counter[int] = field(default_factory=Counter)
    #: Number of graphs with all operators offloaded, in more than one subgraph.
    split: int = 0
    #: Bytes that one run of each graph passes into subgraphs and out of them.
    boundary_bytes: int = 0
    #: Number of graphs in more subgraphs than necessary, and the worst of them: {case, subgraphs,
    #: smallest}.
    above_smallest: int = 0
    worst_split: dict[str, Any] = field(default_factory=dict)
    #: True if any subgraph holds several operators or patterns.
    merges: bool = False
    #: The measured graphs (`measured.as_dict`).
    speed: list[dict[str, Any]] = field(default_factory=list)
    #: What is told of each whole model.
    models: list[dict[str, Any]] = field(default_factory=list)
    #: Number of failures of each cell by check.
    failed_by: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)

    #: Id of a check to the number of passing graphs that it was made on.
    held: Counter[str] = field(default_factory=Counter)
    #: Seconds of the tests that a shard keeps together, by their name (plugin/division.py).
    durations: dict[str, float] = field(default_factory=dict)
    #: The number of graphs whose pass was taken over from an earlier session, and why none was.
    taken_over: int = 0
    not_taken_over: str = ""
    #: The passes that are kept for a later session. They are not part of `as_dict`.
    passes: Passes = field(default_factory=Passes)
    #: Of a shard: each failing graph. They are not part of `as_dict`.
    sightings: list[Sighting] = field(default_factory=list)

    def took(self, tests: str, seconds: float) -> None:
        """Adds to the duration of tests that a shard keeps together."""
        self.durations[tests] = self.durations.get(tests, 0.0) + seconds

    def _fail_cell(self, operator: str, dtype: str, check: str) -> None:
        self._cell(operator, dtype)["failed"] += 1
        self.failed_by.setdefault((operator, dtype), Counter())[check] += 1

    def _cell(self, operator: str, dtype: str) -> dict[str, int]:
        return self.cells.setdefault((operator, dtype), dict.fromkeys(COUNTS, 0))

    def add(self, verdict: Verdict, case: str) -> None:
        """Counts one graph. `fail` lists its failure separately, with the shrunk graph."""
        self.outcomes[verdict.outcome] += 1
        self.graphs += 1
        self.taken_over += verdict.taken_over
        self.regions += verdict.regions
        self.by_subgraphs[verdict.regions] += 1
        self.split += verdict.regions > 1 and all(verdict.offloaded)
        self.boundary_bytes += verdict.boundary_bytes
        self.merges |= verdict.merges
        if verdict.regions > verdict.smallest > 0:
            self.above_smallest += 1
            split = {"case": case, "subgraphs": verdict.regions, "smallest": verdict.smallest}
            self.worst_split = _worse(self.worst_split, split)
        if verdict.outcome == PASS and verdict.speed:
            self.speed.append(measured.as_dict(case, verdict, verdict.speed))
        self._case(case, verdict.outcome, [f.check for cause in causes(verdict) for f in cause.findings[:1]])
        if verdict.outcome == PASS:
            self.held.update(verdict.checks_made)
        for text in verdict.not_checked:
            if f"check {text}" not in self.not_checked:
                self.not_checked.append(f"check {text}")
        offloaded = verdict.offloaded or (False,) * len(verdict.graph.nodes)
        for node, inside in zip(verdict.graph.nodes, offloaded):
            if node.op.startswith(ONNX):
                continue
            cell = self._cell(node.op, node.types[0].dtype)
            cell["generated"] += 1
            cell["offloaded"] += inside
            cell["passed"] += inside and verdict.outcome == PASS
            cell["inconclusive"] += inside and verdict.outcome == INCONCLUSIVE
        if verdict.outcome not in FAILURES and verdict.notes:
            text = "; ".join(dict.fromkeys(verdict.notes))
            self.notes.setdefault(verdict.outcome, []).append(f"{case}: {text}")

    def _case(self, case: str, outcome: str, checks: Iterable[str]) -> None:
        self.cases[case] = worst(outcome, self.cases.get(case, outcome))
        for check in checks:
            known = self.failed_checks.setdefault(case, [])
            if check not in known:
                known.append(check)

    def excuse(self, excused: Excused, graph: Graph) -> None:
        """Lists a failure that does not fail the session. Its graph is not shrunk, so only the cell
        of a graph of one operator counts as failed: in a larger graph the failing operator is not
        known."""
        self.excuse_in(excused, cells_of(graph, graph.operators) if len(graph.nodes) == 1 else [])

    def excuse_in(self, excused: Excused, cells: Iterable[tuple[str, str]]) -> None:
        """Lists a failure that does not fail the session. cells: those that count as failed."""
        for op, dtype in cells:
            self._fail_cell(op, dtype, excused.check)
        self._excuse(excused)

    def _excuse(self, excused: Excused) -> None:
        key = (excused.case, excused.check)
        if key in self.excused:
            self.excused[key].count += excused.count
        else:
            self.excused[key] = excused

    def fail(
        self, verdict: Verdict, case: str, found_in: Graph | None = None, known: Failure | None = None
    ) -> tuple[Failure, bool]:
        """Lists a failing (shrunk) graph. Returns the failure, and whether it is a new one.

        found_in: the graph before shrinking. Its cells count as failed for the operators that are
        left in the shrunk graph, or for the offloaded ones of these where that is known. known: the
        failure that the graph was recognised as."""
        origin = found_in or verdict.graph
        cells = cells_of(origin, blamed(verdict))
        needed = sorted(traits(verdict.graph, self.ir))
        identity = known.id if known else failure_id(verdict.signature, verdict.graph.operators, needed)
        failure, new = self.failures.get(identity), False
        if failure is None:
            finding, new = verdict.findings[0], True
            failure = self.failures[identity] = Failure(
                identity, finding.check, finding.stage, verdict.outcome, list(verdict.graph.operators),
                finding.message, case, "", "", count=0,
                details=details(verdict), shown=shown(verdict, self.ir),
                says=verdict.signature.says, normalised=message_key(finding, verdict.symbols), traits=needed,
                elements=verdict.graph.elements,
            )
        self.show(failure, case, cells, origin.operators if len(origin.nodes) == 1 else ())
        return failure, new

    def show(
        self, failure: Failure, case: str, cells: Sequence[tuple[str, str]], alone: Iterable[str] = ()
    ) -> None:
        """Counts a graph that shows a listed failure. cells: those that count as failed. alone: the
        operator of a graph of one operator."""
        for op, dtype in cells:
            self._fail_cell(op, dtype, failure.check)
        failure.count += 1
        failure.shown_in([case])
        if operators := list(alone):
            failure.seen(operators, [dtype for _, dtype in cells])

    def slower(self) -> list[dict[str, Any]]:
        """Returns the measured graphs in which LLVM is faster; the target's slowest comes first."""
        ratios = measured.ratios(self.speed)
        found = [s for s in self.speed if s["case"] in ratios and ratios[s["case"]].median > 1]
        return sorted(found, key=lambda s: -ratios[s["case"]].median)

    def unmatched(self) -> dict[str, str]:
        """Returns the patterns that no graph was matched by, each with the reason."""
        return {name: reason for name, reason in self.patterns.items() if reason}

    def offload_share(self) -> float:
        """Returns the share of the generated nodes that were offloaded."""
        generated = sum(c["generated"] for c in self.cells.values())
        return sum(c["offloaded"] for c in self.cells.values()) / generated if generated else 0.0

    def as_dict(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "ir": self.ir,
            "versions": self.versions,
            "precision": self.precision,
            "partition_only": self.partition_only,
            "outcomes": self.outcomes,
            "graphs": self.graphs,
            "taken_over": self.taken_over,
            "not_taken_over": self.not_taken_over,
            "subgraphs": self.regions,
            "offloaded_share": round(self.offload_share(), 4),
            "cells": [
                # pytest-xdist cannot pass on a Counter.
                {
                    "operator": op, "dtype": dtype, **counts,
                    "failed_by": dict(self.failed_by.get((op, dtype), {})),
                }
                for (op, dtype), counts in sorted(self.cells.items())
            ],
            "failures": [f.as_dict() for f in self.failures.values() if f.count],
            # pytest-xdist cannot pass on a Counter.
            "held": dict(sorted(self.held.items())),
            "excused": [e.as_dict() for e in self.excused.values()],
            "cases": dict(sorted(self.cases.items())),
            "failed_checks": dict(sorted(self.failed_checks.items())),
            # The order must not depend on which process examined which graph.
            "notes": {outcome: sorted(texts) for outcome, texts in self.notes.items()},
            "not_checked": sorted(self.not_checked),
            "patterns": self.patterns,
            "fragmentation": {
                "graphs_by_subgraphs": {str(k): n for k, n in sorted(self.by_subgraphs.items())},
                "split": self.split,
                "boundary_bytes": self.boundary_bytes,
                "merges": self.merges,
                "above_smallest": self.above_smallest,
                "worst": self.worst_split,
            },
            "corpus": self.corpus,
            "speed": self.speed,
            "models": self.models,
            "onnx": self.onnx,
            "durations": {tests: round(s, 3) for tests, s in sorted(self.durations.items())},
        }

    def take(self) -> dict[str, Any]:
        """Returns everything recorded since the last call, as `as_dict`, and forgets it. Failures
        stay known with a count of 0, so that they are not new again."""
        sightings = [s.as_dict() for s in self.sightings]
        part = {**self.as_dict(), "sightings": sightings, "passes": self.passes.take()}
        known = {name: replace(failure, count=0) for name, failure in self.failures.items()}
        empty = TargetRecord(
            self.target, self.ir, self.versions, precision=self.precision,
            partition_only=self.partition_only, failures=known, not_taken_over=self.not_taken_over,
            passes=self.passes,
        )
        vars(self).update(vars(empty))
        return part

    def merge(self, other: dict[str, Any]) -> None:
        """Adds the record of another process (its `as_dict`)."""
        for outcome, n in other["outcomes"].items():
            self.outcomes[outcome] += n
        self.graphs += other["graphs"]
        self.taken_over += other.get("taken_over", 0)
        self.not_taken_over = self.not_taken_over or other.get("not_taken_over", "")
        if "passes" in other:
            self.passes.add(other["passes"])
        self.regions += other["subgraphs"]
        for cell in other["cells"]:
            mine = self._cell(cell["operator"], cell["dtype"])
            for k in COUNTS:
                mine[k] += cell[k]
            if cell["failed_by"]:
                key = cell["operator"], cell["dtype"]
                self.failed_by.setdefault(key, Counter()).update(cell["failed_by"])
        for f in other["failures"]:
            new, known = Failure(**f), self.failures.get(f["id"])
            if known is None:
                self.failures[new.id] = new
                continue
            if new.is_saved and not known.is_saved:
                new, known = known, new
                self.failures[known.id] = known
            known.count += new.count
            known.shown_in(new.cases)
            known.seen(new.seen_operators, new.seen_dtypes)
        for e in other["excused"]:
            self._excuse(Excused(**e))
        for case, outcome in other["cases"].items():
            self._case(case, outcome, other["failed_checks"].get(case, []))
        for outcome, notes in other["notes"].items():
            self.notes.setdefault(outcome, []).extend(notes)
        self.corpus.update(other["corpus"])
        self.onnx.update(other["onnx"])
        self.patterns.update(other["patterns"])
        fragmentation = other["fragmentation"]
        for subgraphs, n in fragmentation["graphs_by_subgraphs"].items():
            self.by_subgraphs[int(subgraphs)] += n
        self.split += fragmentation["split"]
        self.boundary_bytes += fragmentation["boundary_bytes"]
        self.merges |= fragmentation["merges"]
        self.above_smallest += fragmentation["above_smallest"]
        if fragmentation["worst"]:
            self.worst_split = _worse(self.worst_split, fragmentation["worst"])
        self.speed += other["speed"]
        self.models += other.get("models", [])
        for tests, seconds in other.get("durations", {}).items():
            self.took(tests, seconds)
        self.sightings += map(Sighting.from_dict, other.get("sightings", ()))
        self.held.update(other["held"])
        self.versions = self.versions or other["versions"]
        self.precision = self.precision or other["precision"]
        self.partition_only = self.partition_only or other["partition_only"]
        for text in other["not_checked"]:
            if text not in self.not_checked:
                self.not_checked.append(text)
