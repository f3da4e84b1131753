"""Tests of the truth table, without TVM: invented reports are judged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.core.job_report import JobReport
from pytest_byoc.evidence.comparison import compare
from pytest_byoc.evidence.evidence import Evidence
from pytest_byoc.evidence.judging import judge
from pytest_byoc.examination.decision import decide
from pytest_byoc.examination.outcome import OUTCOMES, Verdict
from pytest_byoc.generation import data
from pytest_byoc.generation.builder import Builder
from pytest_byoc.oracle import evaluation
from pytest_byoc.reference_kernels import exact

END = {"stage": "run", "hung": False, "signal": None, "status": 0, "printed": "", "peak_kib": 0}


def decided(evidence: Evidence) -> Verdict:
    return decide(evidence, judge(evidence))


def a_graph() -> Graph:
    b = Builder(seed=1)
    return b.graph(b.simple("tanh", b.simple("exp", b.input(TensorType((2, 3), "float32"), -1, 1))))


def report(facts: list[tuple[str, str | None, Any]], **end: Any) -> JobReport:
    messages: list[dict[str, Any]] = [{"fact": k, "executor": e, "value": v} for k, e, v in facts]
    return JobReport([*messages, {"done": True}], {**END, **end})


def verdict(
    target: float = 0.0,
    llvm: float = 0.0,
    offloaded: bool = True,
    reloaded: float | None = None,
    end: dict[str, Any] | None = None,
    raised: dict[str, Any] | None = None,
    llvm_raised: dict[str, Any] | None = None,
    again: float = 0.0,
    modified: list[str] | None = None,
    poison: bool = False,
) -> Verdict:
    """Returns the verdict where target and LLVM are off by these amounts."""
    graph = a_graph()
    inputs = [data.inputs(graph, i) for i in (0, 1)]
    expected = [evaluation.evaluate(graph, i) for i in inputs]
    good = [e[0].value.astype("float32") for e in expected]
    nodes = ["exp -> float32[2,3]", "tanh -> float32[2,3]"]
    regions = [{"symbol": "r0", "calls": nodes[1:], "inputs": 1, "outputs": 1, "composites": []}]
    wrong = good[0] + np.float32(target)
    if poison:
        wrong.view("uint8")[0, :4] = 0x7F
    facts: list[tuple[str, str | None, Any]] = [
        ("regions", None, {"regions": regions if offloaded else [], "nodes": nodes}),
        ("outputs", "graph", {"set": 0, "arrays": [wrong]}),
        ("modified", "graph", modified or []),
        ("rerun_other", "graph", [good[1] + np.float32(again)]),
        ("rerun_first", "graph", [wrong]),
    ]
    seen = report(facts, **(end or {}))
    if raised:
        seen.messages.insert(0, raised)
    if end:
        seen.messages = [m for m in seen.messages if "done" not in m]
    reference = report(
        [("outputs", "graph", {"set": i, "arrays": [g + np.float32(llvm)]}) for i, g in enumerate(good)]
    )
    if llvm_raised:
        reference = JobReport([llvm_raised, {"done": True}], END)
    loader = JobReport()
    if reloaded is not None:
        loader = report([("reloaded", "graph", [wrong + np.float32(reloaded)])])
    return decided(Evidence(graph, inputs, {}, expected, seen, reference, loader))


def an_exception(stage: str) -> dict[str, Any]:
    raised = {"type": "ValueError", "message": "no", "frames": []}
    return {"raised": raised, "stage": stage, "check": "numerics", "executor": "graph"}


@pytest.mark.parametrize(
    ("case", "outcome", "check"),
    [
        ({}, "pass", None),
        ({"target": 1e-9}, "pass", None),
        ({"target": 0.5}, "wrong-result", "numerics"),
        ({"llvm": 0.5}, "reference-wrong", None),
        ({"target": 0.5, "llvm": 0.5}, "oracle-suspect", None),
        ({"target": 0.5, "llvm": -0.5}, "wrong-result", "numerics"),
        ({"offloaded": False}, "not-offloaded", None),
        ({"offloaded": False, "target": 0.5}, "wrong-result", "numerics"),
        ({"reloaded": 0.0}, "pass", None),
        ({"reloaded": 1e-7}, "wrong-result", "roundtrip"),
        ({"again": 0.5}, "wrong-result", "rerun"),
        ({"modified": ["x0"]}, "wrong-result", "inputs-unmodified"),
        ({"poison": True}, "wrong-result", "outputs-written"),
        ({"end": {"signal": "SIGSEGV"}}, "crash", "process"),
        ({"end": {"hung": True}}, "hang", "process"),
        ({"end": {"status": 0}}, "crash", "process"),
        ({"raised": an_exception("build")}, "error", "process"),
        ({"raised": an_exception("partition")}, "error", "offload"),
        ({"raised": an_exception("build"), "llvm_raised": an_exception("build")}, "reference-wrong", None),
        ({"raised": an_exception("run"), "llvm_raised": an_exception("build")}, "error", "process"),
    ],
)
def test_truth_table(case: dict[str, Any], outcome: str, check: str | None) -> None:
    v = verdict(**case)
    assert v.outcome == outcome
    assert outcome in OUTCOMES
    assert (v.findings[0].check if v.findings else None) == check
    assert v.failed == bool(v.findings)


def test_a_linker_error_is_reported_with_its_symbol() -> None:
    raised = an_exception("export")
    raised["raised"]["message"] = (
        "Compilation error:\n/tmp/lib.o: in function `f':\n"
        "lib.c:(.text+0x1): undefined reference to `vendor_run'\n"
        "collect2: error: ld returned 1 exit status\n\nCommand line: g++ -shared -o lib.so lib.o"
    )
    (finding, *_) = verdict(raised=raised).findings
    assert "undefined reference to `vendor_run'" in finding.message and "collect2" not in finding.message


def test_crashes_with_different_signals_fail_alike() -> None:
    segfault, abort = (verdict(end={"signal": name}) for name in ("SIGSEGV", "SIGABRT"))
    assert segfault.signature != abort.signature and segfault.fails_like(abort)
    assert not segfault.fails_like(verdict(end={"signal": "SIGABRT", "stage": "load"}))
    assert not segfault.fails_like(verdict(target=0.5)) and not segfault.fails_like(verdict())


def test_a_finding_names_the_expected_value_and_bound() -> None:
    message = verdict(target=0.5).findings[0].message
    assert "output 0 (%v1) is outside its error bound" in message
    for word in ("expected", "within", "got", "LLVM", "6 of 6 elements"):
        assert word in message


def test_mostly_ambiguous_is_inconclusive() -> None:
    b = Builder(seed=1)
    # The values are near an integer and have a rounding error: the result of floor is undecided.
    x = b.input(TensorType((4,), "float32"), 1.0, 1.0)
    graph = b.graph(b.simple("floor", b.simple("exp", b.simple("log", x))))
    inputs = [data.inputs(graph, i) for i in (0, 1)]
    expected = [evaluation.evaluate(graph, i) for i in inputs]
    outputs = [("outputs", "graph", {"set": 0, "arrays": [np.ones(4, "float32")]})]
    nodes = [f"{n.op} -> float32[4]" for n in graph.nodes]
    regions = {"regions": [{"symbol": "r", "calls": nodes, "inputs": 1, "outputs": 1}], "nodes": nodes}
    seen = report([("regions", None, regions), *outputs])
    assert decided(Evidence(graph, inputs, {}, expected, seen, report([]))).outcome == "inconclusive"


def test_compare_handles_nan_and_infinity() -> None:
    expected = exact(np.array([np.nan, np.inf, -np.inf, 1.0], "float32"))
    same = compare(np.array([np.nan, np.inf, -np.inf, 1.0], "float32"), expected)
    assert not same.outside.any() and same.judged.all()
    other = compare(np.array([1.0, -np.inf, 3e38, np.nan], "float32"), expected)
    assert other.outside.all()


def test_float64_bounds_are_doubled() -> None:
    bounded = exact(np.array([1.0]))
    bounded = type(bounded)(bounded.value, np.array([1e-12]), bounded.ambiguous, "float64")
    assert not compare(np.array([1.0 + 1.5e-12]), bounded).outside.any()
    assert compare(np.array([1.0 + 2.5e-12]), bounded).outside.all()


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([], (False, False, False, False)),
        (["add a"], (True, False, False, False)),
        # Either of the two nodes may be the offloaded one.
        (["tanh b"], (False, True, True, False)),
        (["tanh b", "tanh b"], (False, True, True, False)),
        # The call is matched by its operator only: its type was changed.
        (["tanh z"], (False, True, True, True)),
        (["tanh c", "add z"], (True, False, False, True)),
    ],
)
def test_nodes_that_may_be_the_offloaded_ones(
    calls: list[str], expected: tuple[bool, ...]
) -> None:
    b = Builder()
    x = b.input(TensorType((2,), "float32"))
    v = b.node("add", [x, x], {})[0]
    graph = b.graph(b.simple("tanh", b.simple("tanh", b.simple("tanh", v))))
    value = {"regions": [{"calls": calls}] if calls else [], "nodes": ["add a", "tanh b", "tanh b", "tanh c"]}
    seen = report([("regions", None, value)])
    evidence = Evidence(graph, [], {}, [], seen, JobReport())
    assert evidence.may_be_offloaded() == expected
    assert not any(Evidence(graph, [], {}, [], report([]), JobReport()).may_be_offloaded())


def test_outputs_without_elements_count_as_judged() -> None:
    nothing = exact(np.zeros((0, 3), "float32"))
    evidence = Evidence(a_graph(), [], {}, [[nothing]], JobReport(), JobReport())
    assert evidence.judged_share() == 1.0


@pytest.mark.parametrize(("check", "outcome"), [("archive", "error"), ("roundtrip", "reference-wrong")])
def test_only_a_failure_of_llvm_in_the_same_check_is_an_excuse(check: str, outcome: str) -> None:
    evidence = verdict().evidence
    assert isinstance(evidence, Evidence)
    evidence.loader = JobReport([{**an_exception("load"), "check": "roundtrip"}, {"done": True}], END)
    evidence.deployed = JobReport([{**an_exception("load"), "check": check}, {"done": True}], END)
    assert decided(evidence).outcome == outcome


@pytest.mark.parametrize("stage", ["load", "export"])
def test_an_artifact_that_llvm_cannot_load_either_is_an_excuse_in_both_processes(stage: str) -> None:
    evidence = verdict().evidence
    assert isinstance(evidence, Evidence)
    evidence.target = JobReport([*evidence.target.messages, an_exception(stage)], END)
    failed = JobReport([{**an_exception("load"), "check": "roundtrip"}, {"done": True}], END)
    evidence.loader = evidence.deployed = failed
    # LLVM's build was exported, so an error in that stage is the target's.
    assert decided(evidence).outcome == ("reference-wrong" if stage == "load" else "error")
