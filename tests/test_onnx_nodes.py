"""Tests of ONNX's node tests: judged without TVM, from invented reports; imported and run with
TVM."""

from __future__ import annotations

import fcntl
import math
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_byoc.core.finding import Finding
from pytest_byoc.core.job_report import JobReport
from pytest_byoc.evidence.comparison import compare
from pytest_byoc.examination.activity import Activity
from pytest_byoc.examination.examiner import Examiner
from pytest_byoc.examination.outcome import Verdict
from pytest_byoc.operators import OPERATORS
from pytest_byoc.suite import onnx_nodes
from pytest_byoc.suite.onnx_nodes import NodeTest, OnnxEvidence, Survey

from .conftest import PYTHON, declaration, make_settings

END = {"stage": "run", "hung": False, "signal": None, "status": 0, "printed": "", "peak_kib": 0}
X = np.array([1.0, 2.0, 4.0], "float32")
TEST = NodeTest("test_add", ("Add",), ("add",))


def fact(key: str, value: Any, executor: str | None = None) -> dict[str, Any]:
    return {"fact": key, "executor": executor, "value": value}


def report(*messages: dict[str, Any], **end: Any) -> JobReport:
    done = [] if end else [{"done": True}]
    return JobReport([*messages, *done], {**END, **end})


def judged(
    target: Any, llvm: Any, expected: Any = X, calls: int = 1, end: dict[str, Any] | None = None
) -> Verdict:
    """Returns the verdict where ONNX expects one array, and target and LLVM return others."""
    inputs = {"x": X}
    region = {"symbol": "r0", "calls": ["add -> float32[3]"] * calls, "composites": []}
    seen = [
        fact("regions", {"regions": [region], "nodes": []}),
        fact("outputs", {"set": 0, "arrays": [np.asarray(target)]}, "graph"),
    ]
    by_llvm = fact("outputs", {"set": 0, "arrays": [np.asarray(llvm)]}, "graph")
    tolerated = [onnx_nodes.tolerated(np.asarray(expected))]
    graph = onnx_nodes.interface(TEST, inputs, {"sum": np.asarray(expected)})
    return onnx_nodes.judge(
        OnnxEvidence(graph, [inputs] * 2, {}, [tolerated] * 2, report(*seen, **(end or {})), report(by_llvm))
    )


# --- the judgement -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "llvm", "outcome"),
    [
        (X, X, "pass"),
        (X * np.float32(1.0009), X, "pass"),
        (X * np.float32(1.0011), X, "wrong-result"),
        (X, X + 1, "reference-wrong"),
        (X + 1, X + 1, "reference-wrong"),
        (X + 1, X + 2, "reference-wrong"),
        (X.astype("float64"), X, "wrong-result"),
        (X[:2], X, "wrong-result"),
        (X[:2], X[:2], "reference-wrong"),
        (X[:2] + 1, X[:2], "wrong-result"),
    ],
)
def test_truth_table(target: np.ndarray, llvm: np.ndarray, outcome: str) -> None:
    assert judged(target, llvm).outcome == outcome


def test_nan_equals_nan() -> None:
    nan = np.array([math.nan, math.inf], "float32")
    assert judged(nan, nan, nan).outcome == "pass"
    assert judged(np.array([0, math.inf], "float32"), nan, nan).outcome == "wrong-result"


def test_a_region_without_a_call_does_not_count_as_offloaded() -> None:
    assert judged(X, X, calls=0).outcome == "not-offloaded"


def test_crash_is_a_failure_even_if_llvm_is_wrong() -> None:
    verdict = judged(X, X + 1, end={"signal": "SIGSEGV", "stage": "build"})
    assert (verdict.outcome, verdict.findings[0].stage) == ("crash", "build")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_tolerance_is_onnx_own(dtype: str) -> None:
    bounded = onnx_nodes.tolerated(np.array([100.0], dtype))
    off = np.array([100.0625], dtype)
    assert not compare(off, bounded).outside.any()
    assert compare(np.array([100.125], dtype), bounded).outside.all()


def test_integers_are_exact() -> None:
    bounded = onnx_nodes.tolerated(np.array([100000], "int64"))
    assert compare(np.array([100001], "int64"), bounded).outside.all()


def test_failure_is_described() -> None:
    text = onnx_nodes.describe(judged(X + np.float32([0, 0, 1]), X), "mine", "pytest -k test_add")
    for part in ("wrong-result", "mine", "test_add", "onnx.Add", "%sum", "[2]", "4.0", "5.0", "LLVM"):
        assert part in text
    assert text.endswith("repeat: pytest -k test_add")


# --- the survey ----------------------------------------------------------------------------------


class FakeWorker:
    """Answers jobs with the given reports."""

    def __init__(self, *reports: JobReport) -> None:
        self.reports = list(reports)
        self.report_so_far = JobReport()
        self.jobs: list[dict[str, Any]] = []

    def submit(self, job: dict[str, Any]) -> None:
        self.jobs.append(job)

    def collect(self) -> JobReport:
        return self.reports.pop(0)

    def stop(self) -> None:
        pass


class FakeWorkers:
    """Workers with these node tests, or without the package `onnx`."""

    ir = "relay"
    versions = {"tvm": "0.0"}

    def __init__(self, tmp: Path, version: str | None, operators: tuple[str, ...] = tuple(OPERATORS)) -> None:
        self.settings = replace(make_settings(tmp), operators=operators)
        self.declaration = declaration("pytest_byoc.examples.example_c:target", "relay")
        self.version = version
        self.imports = 0

    def ask_reference(self, job: dict[str, Any]) -> JobReport:
        records = {"add": ["add"], "nn.relu": ["nn.relu"]}
        return report(fact("onnx", self.version), fact("stamp", 1.0), fact("records", records))

    def another_reference(self) -> FakeWorker:
        self.imports += 1
        return FakeWorker(report(*[fact("test", t) for t in TESTS if self.imports == 1]))


TESTS = [
    {"name": "test_relu", "onnx": ["Relu"], "operators": ["nn.relu"], "bound": 0},
    {"name": "test_add", "onnx": ["Add"], "operators": ["add"], "bound": 1},
    {"name": "test_lrn", "onnx": ["LRN"], "operators": ["add", "nn.lrn"], "bound": 0},
    {"name": "test_if", "reason": "KeyError: 'If'"},
]


def test_survey_lists_reasons_for_tests_left_out(tmp_path: Path) -> None:
    workers: Any = FakeWorkers(tmp_path, "1.16")
    survey = onnx_nodes.survey(workers, tmp_path)
    assert survey.candidates == ["test_add", "test_relu"]
    assert survey.left_out == {"test_if": "KeyError: 'If'", "test_lrn": "operator nn.lrn has no record"}
    assert survey.tests["test_add"].bound == 1


def test_survey_is_cached_for_one_onnx_version(tmp_path: Path) -> None:
    workers: Any = FakeWorkers(tmp_path, "1.16")
    first = onnx_nodes.survey(workers, tmp_path)
    imports = workers.imports
    assert onnx_nodes.survey(workers, tmp_path) == first
    assert workers.imports == imports
    workers.version = "1.17"
    onnx_nodes.survey(workers, tmp_path)
    assert workers.imports > imports


def test_the_import_shows_progress_and_is_not_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first session with a TVM spends minutes on the import."""
    shown: list[str] = []
    activity = Activity(lambda: shown.append(activity.in_words().rpartition(",")[0]))
    import_part = onnx_nodes.import_part

    def slowly(worker: Any, job: dict[str, Any]) -> list[NodeTest]:
        worker.report_so_far = report(fact("tests", 3), fact("test", {}))
        time.sleep(0.2)
        return import_part(worker, job)

    monkeypatch.setattr(onnx_nodes, "import_part", slowly)
    monkeypatch.setattr(onnx_nodes, "_WAIT", 0.01)
    workers: Any = FakeWorkers(tmp_path, "1.16")
    onnx_nodes.survey(workers, tmp_path, activity)
    n = onnx_nodes.IMPORTERS
    assert f"{onnx_nodes.IMPORTING}: {n} of {3 * n}" in shown
    assert activity.uncharged >= 0.2


def test_the_import_waits_for_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    activity = Activity(lambda: shown.append(activity.in_words()))
    monkeypatch.setattr(onnx_nodes, "_WAIT", 0.01)
    with open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        threading.Timer(0.2, fcntl.flock, (lock, fcntl.LOCK_UN)).start()
        with activity.during(onnx_nodes.IMPORTING), onnx_nodes._alone(tmp_path, activity):
            assert len(shown) > 2 and shown[-1].startswith(onnx_nodes.IMPORTING)


def test_selected_operators_select_tests(tmp_path: Path) -> None:
    workers: Any = FakeWorkers(tmp_path, "1.16", ("add",))
    survey = onnx_nodes.survey(workers, tmp_path)
    assert survey.candidates == ["test_add"]
    assert survey.left_out["test_relu"] == "operator nn.relu is not selected"


def test_without_onnx_the_reason_is_reported(tmp_path: Path) -> None:
    workers: Any = FakeWorkers(tmp_path, None)
    survey = onnx_nodes.survey(workers, tmp_path)
    assert not survey.tests
    assert survey.not_checked is not None and "has no package onnx" in survey.not_checked


def test_an_import_that_kills_its_process_is_a_reason() -> None:
    worker: Any = FakeWorker(
        report(fact("test", TESTS[0]), signal="SIGSEGV", stage="import test_bad"),
        report(fact("test", TESTS[1]), hung=True, stage="import test_slow"),
        report(fact("test", TESTS[2])),
    )
    reasons = {t.name: t.reason for t in onnx_nodes.import_part(worker, {})}
    assert reasons["test_bad"] == "the import ends the process: SIGSEGV"
    assert reasons["test_slow"] == "the import hangs"
    assert reasons["test_lrn"] is None
    assert worker.jobs[1]["skip"] == ["test_bad", "test_relu"]


def test_an_import_without_progress_is_an_error() -> None:
    worker: Any = FakeWorker(report(signal="SIGSEGV", stage="start", printed="no data"))
    with pytest.raises(RuntimeError, match="SIGSEGV"):
        onnx_nodes.import_part(worker, {})


# --- with TVM ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def examiner(ir: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Examiner]:
    settings = make_settings(tmp_path_factory.mktemp("onnx"), timeout=60.0)
    examiner = Examiner(settings, declaration("pytest_byoc.examples.example_c:target", ir))
    examiner.open()
    yield examiner
    examiner.close()


@pytest.fixture(scope="module")
def a_part(examiner: Examiner, tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Returns a survey of a twentieth of the tests."""
    version, _, records = onnx_nodes._describe(examiner.workers)
    if version is None:
        pytest.skip(f"{PYTHON} has no onnx")
    folder = tmp_path_factory.mktemp("modules")
    known = sorted({o for operators in records.values() for o in operators})
    worker = examiner.workers.another_reference()
    job = {"kind": "onnx-import", "operators": known, "folder": str(folder), "part": 3, "of": 20}
    imported = onnx_nodes.import_part(worker, job)
    worker.stop()
    return Survey({t.name: onnx_nodes._select(t, set(known), set(known)) for t in imported}, version, folder)


def test_tests_are_imported_or_have_a_reason(a_part: Survey) -> None:
    assert len(a_part.tests) > 50
    assert len(a_part.candidates) >= 8
    assert all(a_part.left_out.values())
    for name in a_part.candidates:
        assert a_part.tests[name].operators
        assert (a_part.folder / name).is_file()


def test_candidates_run_through_the_example(a_part: Survey, examiner: Examiner) -> None:
    verdicts = {n: onnx_nodes.examine(examiner, a_part, n) for n in a_part.candidates}
    outcomes = {n: v.outcome for n, v in verdicts.items()}
    assert set(outcomes.values()) <= {"pass", "not-offloaded", "reference-wrong"}, outcomes
    # example_c offloads nothing of most operators that ONNX tests.
    assert list(outcomes.values()).count("pass") >= 8, outcomes


@pytest.mark.parametrize(
    ("target", "outcome"),
    [(X, "pass"), (X + 1, "inconclusive"), (X.astype("float64"), "wrong-result"), (X[:2], "wrong-result")],
)
def test_declared_precision_excuses_values_outside_the_tolerance(
    target: np.ndarray, outcome: str
) -> None:
    """A wrong type or shape is still a failure, and an excused value is no pass."""
    verdict = onnx_nodes.excused(judged(target, X))
    assert verdict.outcome == outcome and bool(verdict.findings) == (outcome == "wrong-result")
    assert outcome != "inconclusive" or "does not include the precision" in verdict.notes[-1]


def test_declared_precision_does_not_excuse_a_later_run() -> None:
    v = judged(X, X)
    later = Finding("rerun", "wrong-result", "compare", "second-run", "")
    first = Finding("numerics", "wrong-result", "compare", "wrong-value", "")
    for findings, outcome in (((later,), "wrong-result"), ((first, later), "inconclusive")):
        assert onnx_nodes.excused(replace(v, outcome="wrong-result", findings=findings)).outcome == outcome
