"""Tests of checks that need other graphs or workers than the graph's own examination."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_byoc.checks import CHECKS, dynamic, reproducible, selection, size
from pytest_byoc.checks.base import EVERY, FEW
from pytest_byoc.checks.truncated import saved_at
from pytest_byoc.config import plan
from pytest_byoc.config.levels import LEVELS
from pytest_byoc.core.finding import WRONG_RESULT
from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.core.job_report import JobReport
from pytest_byoc.evidence.evidence import Evidence
from pytest_byoc.evidence.judging import Judgement
from pytest_byoc.examination.client import Worker, WorkerError
from pytest_byoc.examination.companions import Companions
from pytest_byoc.examination.examiner import Examiner
from pytest_byoc.examination.outcome import PASS
from pytest_byoc.examination.workers import Workers
from pytest_byoc.generation import data
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.variants import larger, twin
from pytest_byoc.oracle import evaluation
from pytest_byoc.reference_kernels import FULL

from .conftest import declaration, make_settings

_T = TensorType((2, 3), "float32")


def sample(constants: bool = True, twice: bool = False) -> Graph:
    b = Builder(seed=1)
    y = b.simple("nn.relu", b.input(_T))
    if constants:
        y = b.node("subtract", (y, b.constant(_T)), {})[0]
    return b.graph(y, y) if twice else b.graph(y)


# --- other graphs ----------------------------------------------------------------------------------


def test_a_twin_differs_only_in_the_values_of_constants() -> None:
    graph = sample()
    other = twin(graph)
    assert other is not None and other.nodes == graph.nodes and other.inputs == graph.inputs
    ((name, mine),), ((_, its),) = data.constants(graph).items(), data.constants(other).items()
    assert other.type_of(name) == graph.type_of(name) and not np.array_equal(mine, its)


def test_without_constants_the_twin_has_a_larger_batch_if_any() -> None:
    graph = sample(constants=False)
    assert twin(graph) == larger(graph)
    assert larger(graph).inputs[0].type.shape == (5, 3)  # type: ignore[union-attr]
    b = Builder()
    scalar = b.graph(b.simple("nn.relu", b.input(TensorType((), "float32"))))
    assert twin(scalar) is None


def test_constants_as_inputs_come_after_the_other_inputs() -> None:
    graph = sample().unbound()
    assert [s.name for s in graph.inputs] == ["x0", "c0"] and not graph.constants


# --- which checks are made on which graph
# ----------------------------------------------------------


def test_expensive_checks_by_level() -> None:
    few = {c.id for c in CHECKS if c.made_on == FEW}
    every = {c.id for c in CHECKS if c.made_on == EVERY}
    everything = {c.id for c in CHECKS}
    for level in ("smoke", "standard"):
        assert checks(level) == every
    assert checks("smoke", plan.ALL_CHECKS) == every
    assert checks("standard", plan.ALL_CHECKS) == everything
    assert checks("standard", plan.ALL_CHECKS, alone=True) == everything - few
    assert checks("full") == everything - few
    assert checks("full", plan.ALL_CHECKS, alone=True) == everything | {plan.SPEED}
    assert checks("smoke", plan.ALL_CHECKS, plan.SAVED, alone=True) == everything


def checks(level: str, *kinds: str, alone: bool = False) -> set[str]:
    return set(plan.effort(LEVELS[level], set(kinds), alone).checks)


def test_a_loader_skips_checks_that_run_elsewhere() -> None:
    wanted = ["roundtrip", "views", "overread", "missing-library"]
    assert selection.loaded(wanted, host_runs_some=True) == ["roundtrip", "views"]
    assert selection.loaded_of_llvm(wanted) == ["roundtrip", "views"]


# --- verdicts on recorded facts
# ---------------------------------------------------------------------


def recorded(*facts: tuple[str, Any]) -> JobReport:
    return JobReport([{"fact": k, "executor": "vm", "value": v} for k, v in facts])


@pytest.mark.parametrize(
    ("again", "words"), [(["a", "b"], ""), (["a", "c"], "line 2: first 'b', then 'c'"), (["a"], ", then ''")]
)
def test_the_first_difference_of_two_compilations_is_named(again: Sequence[str], words: str) -> None:
    first = recorded(("outline", ["a", "b"]))
    evidence = Evidence(sample(), [], {}, [], first, JobReport(), again=recorded(("outline", again)))
    assert [words in f.message for f in reproducible.judge(evidence)] == ([True] if words else [])
    evidence.deterministic = False
    assert not list(reproducible.judge(evidence))


@pytest.mark.parametrize(
    ("kept_by_tvm", "copies", "fails"), [(0, 1, False), (0, 2, True), (1, 2, False), (1, 3, True)]
)
def test_copies_of_weights_in_the_artifact_are_a_finding(kept_by_tvm: int, copies: int, fails: bool) -> None:
    weights, without = 1 << 17, 15_000
    actual = without + copies * weights + 4096
    sizes = {"weights": weights, "without": without, "found": actual, "again": actual}
    report = recorded(("size", {**sizes, "kept_by_tvm": kept_by_tvm}))
    findings = list(size.judge(Evidence(sample(), [], {}, [], report, JobReport())))
    assert [finding.kind for finding in findings] == (["too-large"] if fails else [])
    assert not findings or f"{copies}.03 times" in findings[0].message


@pytest.mark.parametrize(("more", "reasons"), [(0, []), (1 << 12, []), (1 << 16, ["grows"])])
def test_an_artifact_that_grows_with_each_compilation_is_a_finding(more: int, reasons: list[str]) -> None:
    sizes = {"weights": 1 << 17, "without": 0, "found": 1 << 17, "again": (1 << 17) + more}
    report = recorded(("size", {**sizes, "kept_by_tvm": 0}))
    findings = list(size.judge(Evidence(sample(), [], {}, [], report, JobReport())))
    assert [finding.kind for finding in findings] == reasons


def test_withdrawn_facts_count_as_not_checked() -> None:
    report = recorded(("aot", 1), ("outputs", 2))
    report.withdraw(("aot",), "aot", "why")
    assert not list(report.facts("aot")) and list(report.facts("outputs"))
    assert list(report.not_checked()) == [("aot", "why")]


@pytest.mark.parametrize("symbol", ["__tvm_dev_mblob", "__tvm_ffi__library_bin", "another"])
def test_position_of_the_saved_data_in_a_library(tmp_path: Path, symbol: str) -> None:
    source, library = tmp_path / "a.c", tmp_path / "a.so"
    source.write_text(f'const char {symbol}[] = "\\5\\0\\0\\0\\0\\0\\0\\0hello";\n')
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    content = library.read_bytes()
    at = saved_at(content)
    if symbol == "another":
        assert at is None
    else:
        assert at is not None and content[at : at + 13] == b"\5\0\0\0\0\0\0\0hello"
    assert saved_at(b"no library") is None


class _Refused(Worker):
    def start(self) -> None:
        """Does not start the worker."""

    def ready(self) -> dict[str, Any]:
        raise WorkerError("the device is taken\nby another process")


def test_an_unavailable_second_worker_is_reported(tmp_path: Path) -> None:
    workers = Workers(make_settings(tmp_path), declaration("example_c", "relay"))
    workers.make_worker = lambda config: _Refused("", {"role": "target"}, 1.0)
    companions = Companions(workers)
    evidence = Evidence(sample(), [], {}, [], JobReport(), JobReport())
    job: Any = {"checks": ["reproducible"]}
    companions.compile(job, evidence, 1.0)
    assert evidence.not_checked() == ("reproducible: there is no second worker: the device is taken",)


class _Llvm:
    """Stands for workers whose reference worker returns these reports, one after the other."""

    ir, precision = "relax", FULL
    built: dict[str, Any] = {}
    another_target = guarded_loader = loader_without_libraries = loader_without_files = None

    def __init__(self, *reports: JobReport) -> None:
        self.reports = list(reports)
        self.jobs: list[Any] = []

    def ask_reference(self, job: dict[str, Any]) -> JobReport:
        self.jobs.append(job)
        return self.reports.pop(0)


def opened_run(outputs: Callable[[Graph], np.ndarray]) -> tuple[Evidence, Any, Companions, _Llvm]:
    """Returns evidence on a run with open extents, which returned `outputs` of each graph."""
    llvm = _Llvm()
    companions = Companions(llvm)  # type: ignore[arg-type]
    graph = sample(constants=False)
    job: Any = {"openings": companions.openings(graph, ["dynamic"]), "executors": ["vm"]}
    constants, inputs = data.constants(graph), data.inputs(graph, 0)
    expected = evaluation.evaluate(graph, {**constants, **inputs})
    evidence = Evidence(graph, [inputs], constants, [expected], JobReport(), JobReport())
    evidence.openings = companions.opened(job)
    for which, one in (("small", graph), ("large", evidence.openings[0].larger.graph)):
        value = {"set": which, "arrays": [outputs(one)]}
        evidence.target.messages.append({"fact": dynamic.fact(0), "executor": "vm", "value": value})
    companions.expect_opened(evidence)
    return evidence, job, companions, llvm


def right(graph: Graph) -> np.ndarray:
    values = {**data.constants(graph), **data.inputs(graph, 0)}
    return np.asarray(evaluation.evaluate(graph, values)[0].value, "float32")


def wrong_where_larger(graph: Graph) -> np.ndarray:
    return right(graph) + (graph.inputs[0].type.shape != _T.shape)


def test_wrong_values_with_open_extents_name_them_and_the_size() -> None:
    assert not list(dynamic.judge(opened_run(right)[0]))
    (finding,) = dynamic.judge(opened_run(wrong_where_larger)[0])
    assert finding.outcome == WRONG_RESULT
    assert "compiled with open extents (%x0: float32[n,m]) and run with n=5, m=7 (vm" in finding.message


@pytest.mark.parametrize("llvm_too", [False, True])
def test_values_that_llvm_gets_wrong_too_are_withdrawn(llvm_too: bool) -> None:
    evidence, job, companions, llvm = opened_run(wrong_where_larger)
    of_llvm = (wrong_where_larger if llvm_too else right)(evidence.openings[0].larger.graph)
    llvm.reports = [recorded(("outputs", {"set": 1, "arrays": [of_llvm]}))]
    judgement = Judgement(tuple(dynamic.judge(evidence)), ())
    assert companions.settle(job, evidence, judgement) == llvm_too
    assert bool(list(dynamic.judge(evidence))) != llvm_too
    assert llvm.jobs[0]["opened"] == [["x0", 0, "n", 0], ["x0", 1, "m", 0]]


@pytest.mark.parametrize("llvm_too", [False, True])
def test_a_death_with_open_extents_is_withdrawn_if_llvm_dies_too(llvm_too: bool) -> None:
    evidence, job, companions, llvm = opened_run(right)
    end = {"hung": False, "signal": "SIGSEGV", "status": None, "stage": "run"}
    evidence.target.messages = [{"begins": "dynamic"}]  # It has died before the first fact.
    evidence.target.end = end
    alive = JobReport([{"done": True}], {**end, "signal": None, "status": 0})
    llvm.reports = [JobReport([], end) if llvm_too else alive for _ in evidence.openings]
    companions.expect_opened(evidence)
    assert companions.settle(job, evidence, Judgement((), ())) == llvm_too
    assert (evidence.target.died is None) == llvm_too
    assert bool(list(evidence.target.not_checked())) == llvm_too


# --- with a target ---------------------------------------------------------------------------------


def test_the_example_passes_every_check(ir: str, tmp_path: Path) -> None:
    """TVM's own AOT executor writes one output for a value returned twice: aot is then not
    checked."""
    examiner = Examiner(make_settings(tmp_path, 120.0), declaration("example_c", ir))
    examiner.open()
    try:
        for graph in (sample(), sample(twice=True)):
            verdict = examiner.examine(graph, plan.effort(LEVELS["full"], {plan.ALL_CHECKS}))
            assert verdict.outcome == PASS, [f.message for f in verdict.findings]
            assert verdict.speed is not None and 0 < verdict.speed.target.low <= verdict.speed.target.high
            assert (verdict.regions, verdict.smallest, verdict.merges) == (1, 1, True)
            aot = [text for text in verdict.not_checked if text.startswith("aot")]
            assert bool(aot) == (ir == "relay" and len(graph.outputs) == 2)
    finally:
        examiner.close()
