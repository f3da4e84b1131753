"""ONNX's own node tests: selects the tests that a target can be judged by, and judges each.

The tests come with the `onnx` package of the workers' interpreter. Reference workers import them
with TVM's ONNX frontend (`survey`); the result is kept in a folder, since the import takes long.
Tests that consist of operators with records then run in the target worker, the reference worker and
the loader like any graph. Their results are compared with ONNX's tolerance in place of our error
bound.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..config import plan
from ..core import files
from ..core.finding import WRONG_RESULT
from ..core.graph import Graph, Node, Source, TensorType
from ..core.job_report import JobReport
from ..core.protocol import Decoder
from ..evidence import judging
from ..evidence.comparison import compare
from ..evidence.evidence import Evidence
from ..examination.activity import Activity
from ..examination.client import Worker
from ..examination.decision import decide
from ..examination.description import Description
from ..examination.examiner import Examiner
from ..examination.outcome import INCONCLUSIVE, ORACLE_SUSPECT, REFERENCE_WRONG, Verdict
from ..examination.signature import NUMBERS
from ..examination.subject import Subject
from ..examination.workers import Workers
from ..generation import data
from ..generation.systematic import default_case
from ..operators import OPERATORS
from ..record.findings import message_lines
from ..record.process_output import printed_lines, stack_lines
from ..reference_kernels import FULL, Bounded, exact
from ..worker.onnx_models import STAGE

#: ONNX's tolerance for its node tests (onnx.backend.test.loader).
RTOL, ATOL = 1e-3, 1e-7
#: Number of worker processes that import tests at the same time.
IMPORTERS = min(4, os.cpu_count() or 1)
#: The name of the import as an activity of the session.
IMPORTING = "importing ONNX's node tests, which is done once for each TVM"
#: Seconds between two polls of other processes.
_WAIT = 0.5
#: Version of the files in the folder; it has to be raised when their meaning changes.
_FORMAT = 1


@dataclass(frozen=True)
class NodeTest:
    """One of ONNX's node tests.

    onnx: ONNX operators of the model. operators: operators of the imported module in the IR. bound:
    number of inputs that were made constants because TVM does not import the model otherwise.
    reason: why the test is not run; None if it is.
    """

    name: str
    onnx: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    bound: int = 0
    reason: str | None = None


@dataclass(frozen=True)
class Survey:
    """The ONNX node tests as imported by one TVM.

    tests: all tests by name; those with a `reason` are not run. version: the version of `onnx`.
    folder: the folder of the imported models. not_checked: the reason why there are no tests at
    all."""

    tests: dict[str, NodeTest]
    version: str | None
    folder: Path
    not_checked: str | None = None

    @property
    def candidates(self) -> list[str]:
        """Returns the names of the tests that are run, sorted."""
        return [name for name, test in self.tests.items() if test.reason is None]

    @property
    def left_out(self) -> dict[str, str]:
        """Returns the reason why each of the other tests is not run, by name."""
        return {name: test.reason for name, test in self.tests.items() if test.reason is not None}


def survey(workers: Workers, folder: Path, activity: Activity | None = None) -> Survey:
    """Imports ONNX's node tests with the TVM of a target's workers. The first import takes minutes,
    which do not count towards the time budget; its results are kept in `folder` and read from there
    afterwards."""
    activity = activity or Activity()
    version, stamp, records = _describe(workers)
    if version is None:
        python = workers.declaration.python
        reason = f"ONNX's node tests: the workers' interpreter ({python}) has no package onnx: install it"
        return Survey({}, None, folder, reason)
    known = sorted({operator for operators in records.values() for operator in operators})
    key_parts = [_FORMAT, workers.declaration.python, workers.ir, workers.versions, stamp]
    key = json.dumps([*key_parts, version, known])
    folder = folder / hashlib.sha256(key.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / "survey.json"
    with activity.during(IMPORTING, charged=False), _alone(folder, activity):
        if not index.is_file():
            found = _import_all(workers, known, folder, activity)
            files.replace(index, json.dumps([asdict(test) for test in found]).encode())
    selected = {o for name in workers.settings.operators for o in records.get(name, ())}
    tests = [_read_test(entry) for entry in json.loads(index.read_text())]
    return Survey({t.name: _select(t, set(known), selected) for t in tests}, version, folder)


def _read_test(entry: dict[str, Any]) -> NodeTest:
    return NodeTest(**{**entry, "onnx": tuple(entry["onnx"]), "operators": tuple(entry["operators"])})


def _select(test: NodeTest, known: set[str], selected: set[str]) -> NodeTest:
    """Returns the test, with a reason if an operator has no record or is not selected."""
    if test.reason is not None:
        return test
    for wanted, reason in ((known, "operator {} has no record"), (selected, "operator {} is not selected")):
        missing = [o for o in test.operators if o not in wanted]
        if missing:
            return replace(test, reason=reason.format(", ".join(missing)))
    return test


@contextmanager
def _alone(folder: Path, activity: Activity) -> Iterator[None]:
    """Locks the folder, so that other processes, of the same session (pytest-xdist) or of another
    one, wait instead of importing the same tests."""
    with open(folder / "lock", "w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                activity.tick()
                time.sleep(_WAIT)
        yield


# --- the reference worker's part -----------------------------------------------------------------


def _describe(workers: Workers) -> tuple[str | None, float, dict[str, list[str]]]:
    """Returns the version of the workers' onnx (None without onnx), their TVM's stamp, and the IR
    operators of each record."""
    graphs = {}
    for name, op in OPERATORS.items():
        if workers.ir in op.irs():
            graph = default_case(name, op.dtypes[0], workers.ir).graph
            graphs[name] = {"graph": graph.to_dict(), "constants": data.constants(graph)}
    report = workers.ask_reference({"kind": "onnx-describe", "graphs": graphs})
    facts = {key: value for key in ("onnx", "stamp", "records") for _, value in report.facts(key)}
    if len(facts) < 3:
        raise RuntimeError(f"the reference worker cannot lower the records: {_why(report)}")
    return facts["onnx"], facts["stamp"], facts["records"]


def _import_all(workers: Workers, known: list[str], folder: Path, activity: Activity) -> list[NodeTest]:
    importers = [workers.another_reference() for _ in range(IMPORTERS)]
    job = {"kind": "onnx-import", "operators": known, "folder": str(folder), "of": IMPORTERS}
    try:
        with ThreadPoolExecutor(IMPORTERS) as pool:
            parts = [
                pool.submit(import_part, worker, {**job, "part": i}) for i, worker in enumerate(importers)
            ]
            done = 0
            while wait(parts, _WAIT).not_done:
                reports = [worker.report_so_far for worker in importers]
                before, done = done, sum(len([*r.facts("test")]) for r in reports)
                activity.step(IMPORTING, done - before, sum(n for r in reports for _, n in r.facts("tests")))
            return sorted((t for part in parts for t in part.result()), key=lambda t: t.name)
    finally:
        for worker in importers:
            worker.stop()


def import_part(worker: Worker, job: dict[str, Any]) -> list[NodeTest]:
    """Imports one worker's share of the tests. A test that ends or hangs its process is recorded
    with that reason and left out of the next attempt. Raises RuntimeError if an attempt imports no
    further test."""
    found: dict[str, NodeTest] = {}
    while True:
        worker.submit({**job, "skip": sorted(found)})
        report = worker.collect()
        before = len(found)
        for _, value in report.facts("test"):
            test = NodeTest(
                value["name"], tuple(value.get("onnx", ())), tuple(value.get("operators", ())),
                value.get("bound", 0), value.get("reason"),
            )
            found[test.name] = test
        if not report.failed:
            return list(found.values())
        assert report.end is not None
        name = report.end["stage"][len(STAGE) :] if report.end["stage"].startswith(STAGE) else None
        if report.died and name and name not in found:
            how = "hangs" if report.died == "hung" else f"ends the process: {report.died}"
            found[name] = NodeTest(name, reason=f"the import {how}")
        if len(found) == before:
            raise RuntimeError(f"ONNX's node tests cannot be read: {_why(report)}")


def _why(report: JobReport) -> str:
    for message in report.raised():
        return f"{message['raised']['type']}: {message['raised']['message']}"
    return f"the process {report.ended}. It printed:\n{(report.end or {}).get('printed', '')}"


# --- one test ------------------------------------------------------------------------------------


class OnnxEvidence(Evidence):
    """The evidence on an ONNX test, whose graph has one node that stands for the whole model."""

    def placement(self) -> tuple[int | None, ...]:
        return (next((i for i, region in enumerate(self.regions) if region["calls"]), None),)


def _content(found: Survey, name: str) -> dict[str, Any]:
    return dict(next(Decoder().feed((found.folder / name).read_bytes())))


def described(examiner: Examiner, found: Survey, name: str, verdict: Verdict) -> Description:
    """Returns the modules and sources that the target makes of the model of a failing test, as
    text."""
    return examiner.describe(verdict, _content(found, name)["module"])


def examine(examiner: Examiner, found: Survey, name: str) -> Verdict:
    """Returns the verdict on one of the candidates of a survey. The verdict's graph has the inputs
    and outputs of the model and one node `onnx.<operator>`: it is for display only and cannot be
    lowered."""
    content = _content(found, name)
    graph = interface(found.tests[name], content["inputs"], content["outputs"])
    # ONNX has one set of inputs, so both runs get the same: the second must be right too (check
    # `rerun`).
    expected = [tolerated(array) for array in content["outputs"].values()]
    subject = Subject(graph, [content["inputs"]] * 2, {}, content["module"], [expected, expected])
    evidence, _ = examiner.gather(subject, plan.every_graph())
    verdict = judge(OnnxEvidence(**vars(evidence)))
    return excused(verdict) if examiner.workers.precision != FULL else verdict


def excused(verdict: Verdict) -> Verdict:
    """Returns the verdict on a target that declares lower precision: wrong values become
    inconclusive. The error that the declared precision allows cannot be calculated from ONNX's
    outputs, and ONNX's tolerance does not include it."""
    kinds = {f.kind for f in verdict.findings}
    if not kinds & NUMBERS or not kinds <= {*NUMBERS, "second-run"}:
        return verdict
    note = "outside ONNX's tolerance, which does not include the precision that the target declares"
    return replace(verdict, outcome=INCONCLUSIVE, findings=(), notes=(*verdict.notes, note))


def interface(test: NodeTest, inputs: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> Graph:
    """Returns the model as a graph of one node."""
    sources = tuple(Source(n, _type(a)) for n, a in inputs.items())
    # An input, as TVM names it, may have the same name as an output of the model.
    names = tuple(f"{n}_out" if n in inputs else n for n in outputs)
    node = Node(
        "onnx." + "+".join(test.onnx), tuple(inputs), {"test": test.name}, names,
        tuple(_type(a) for a in outputs.values()),
    )
    return Graph(sources, (), (node,), names)


def _type(array: np.ndarray) -> TensorType:
    return TensorType(tuple(array.shape), str(array.dtype))


def tolerated(array: np.ndarray) -> Bounded:
    """Returns ONNX's expected output with ONNX's tolerance as its error bound. Integers and
    booleans have none."""
    bounded = exact(array)
    if not bounded.is_float:
        return bounded
    magnitude = np.where(np.isfinite(bounded.value), np.abs(bounded.value), 0.0)
    error = ATOL + RTOL * magnitude
    # `Evidence` doubles the bound of float64.
    return replace(bounded, error=error / 2 if bounded.dtype == "float64" else error)


def judge(evidence: OnnxEvidence) -> Verdict:
    """Returns the verdict by the truth table of `outcome`, with one exception: if LLVM's result is
    wrong too, the outcome is reference-wrong, since TVM's importer or its build deviates from
    ONNX."""
    fault = _retyped(evidence)
    verdict = decide(evidence, judging.judge(evidence))
    if fault:
        note = f"{fault}; the target is compared with LLVM's output"
        verdict = replace(verdict, notes=(*verdict.notes, note))
    wrong_only = all(f.outcome == WRONG_RESULT for f in verdict.findings)
    if verdict.failed and wrong_only and _llvm_outside(evidence):
        note = f"the target's result is not that of ONNX either: {verdict.findings[0].message}"
        notes = (*verdict.notes, note)
        return replace(verdict, outcome=REFERENCE_WRONG, findings=(), notes=notes)
    if verdict.outcome == ORACLE_SUSPECT or (fault and not verdict.failed):
        return replace(verdict, outcome=REFERENCE_WRONG)
    return verdict


def _llvm_outside(evidence: OnnxEvidence) -> bool:
    outputs = evidence.reference_outputs(0) or []
    return any(compare(a, b).outside.any() for a, b in zip(outputs, evidence.expected[0]))


def _retyped(evidence: OnnxEvidence) -> str | None:
    """Returns a description of the difference if LLVM's outputs have other types than ONNX's, and
    None otherwise. Such a difference means that the import changed the model: LLVM's outputs then
    replace ONNX's as the expected values."""
    outputs = evidence.reference_outputs(0)
    graph = evidence.graph
    if outputs is None:
        return None
    types = [_type(array) for array in outputs]
    wanted = [graph.type_of(name) for name in graph.outputs]
    if types == wanted:
        return None
    names = (graph.outputs + tuple(f"extra_{i}" for i in range(len(types))))[: len(types)]
    evidence.graph = replace(
        graph, nodes=(replace(graph.nodes[0], outputs=names, types=tuple(types)),), outputs=names
    )
    evidence.expected = [[tolerated(array) for array in outputs]] * 2
    return f"imported by TVM and built by LLVM, the model gives {_list(types)}, ONNX expects {_list(wanted)}"


def _list(types: Sequence[TensorType]) -> str:
    return ", ".join(map(str, types))


# --- words ---------------------------------------------------------------------------------------


def describe(verdict: Verdict, target: str, command: str, description: Description | None = None) -> str:
    """Returns the text of a failing verdict.

    command: the pytest command that repeats the test. description: the modules and sources that the target
    makes of the model."""
    node = verdict.graph.nodes[0]
    finding = verdict.findings[0]
    first, *rest = message_lines(verdict.findings)
    lines = [
        f"{node.op}: {first}",
        *rest,
        "",
        f"{verdict.outcome} in stage {finding.stage}, check {finding.check} (target {target})",
        f"ONNX's node test {node.attrs['test']} ({node.op})",
    ]
    if verdict.outcome == WRONG_RESULT and finding.stage == "compare":
        lines.append(f"ONNX's tolerance: {ATOL:g} + {RTOL:g} * |expected|; integers exactly")
    lines += [*printed_lines(finding.details), *stack_lines(finding.details)]
    lines += ["", "inputs:"]
    lines += [f"  %{s.name}: {s.type}" for s in verdict.graph.inputs]
    lines += description.lines() if description is not None else ()
    lines += [f"note: {note}" for note in verdict.notes]
    lines += ["", f"repeat: {command}"]
    return "\n".join(lines)
