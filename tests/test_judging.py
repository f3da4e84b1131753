"""Tests of checks on recorded facts, for faults that would need a target of their own to show."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pytest_byoc.checks import (
    inline_back,
    memory,
    missing_library,
    numerics,
    outputs_written,
    reproducible,
    threads,
    truncated,
)
from pytest_byoc.core.graph import Graph, Source, TensorType
from pytest_byoc.core.job_report import JobReport
from pytest_byoc.evidence.comparison import compare, within
from pytest_byoc.evidence.evidence import Evidence
from pytest_byoc.examination.outcome import Verdict
from pytest_byoc.generation import data
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.systematic import cases
from pytest_byoc.oracle import evaluation
from pytest_byoc.reference_kernels import Bounded
from pytest_byoc.reference_kernels.bounded import exact
from pytest_byoc.runs import TargetRun
from pytest_byoc.worker.resolve import ResolvedTarget

_T = TensorType((2, 3), "float32")


def sample() -> Graph:
    b = Builder(seed=1)
    return b.graph(b.simple("nn.relu", b.input(_T)))


def recorded(*facts: tuple[str, Any]) -> JobReport:
    return JobReport([{"fact": k, "executor": "vm", "value": v} for k, v in facts])


def first_run(array: np.ndarray) -> JobReport:
    return recorded(("outputs", {"set": 0, "arrays": [array]}))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8"])
def test_the_fast_comparison_agrees_with_the_full_one(dtype: str) -> None:
    rng = np.random.default_rng(0)
    special = [0.0, 1.0, -1.0] + ([np.nan, np.inf, -np.inf] if dtype[0] == "f" else [])
    seen = set()
    for _ in range(2000):
        # With three elements, a mixture of kinds is likely.
        value, error = rng.choice(special, 3), rng.choice([0.0, 0.5, 3.0, np.inf], 3)
        actual = np.where(rng.random(3) < 0.7, value, rng.choice(special, 3))
        if dtype[0] != "f":
            value, error = value.astype("int64"), np.zeros(3)
        bounded = Bounded(value, error, np.isinf(error), dtype)
        right = not compare(actual.astype(dtype), bounded).outside.any()
        short = within(actual.astype(dtype), bounded)
        seen.add((short, right))
    # NaN and infinities need the full comparison.
    assert seen == {(True, True), (False, False), *([(False, True)] if dtype[0] == "f" else [])}


@pytest.mark.parametrize("name", ["abs[int8-edges]", "add[int8-edges]"])
def test_saturation_counts_as_written_output(name: str) -> None:
    """127 as int8 is the byte that memory holds before a run."""
    (case,) = [c for c in cases(("abs", "add"), "relay") if c.id == name]
    inputs = data.inputs(case.graph, 0)
    (expected,) = evaluation.evaluate(case.graph, inputs)
    assert expected.ambiguous.any() and not expected.ambiguous.all()
    saturated = np.where(expected.ambiguous, 127, expected.value).astype("int8")

    def found(array: np.ndarray) -> bool:
        evidence = Evidence(case.graph, [inputs], {}, [[expected]], first_run(array), JobReport())
        return any(outputs_written.judge(evidence))

    assert not found(saturated)
    judged = np.argwhere(~expected.ambiguous & (expected.value != 127))[0]
    saturated[tuple(judged)] = 127
    assert found(saturated)


def test_the_largest_bfloat16_is_a_value_where_a_sum_may_overflow() -> None:
    """Its bytes are those that memory holds before a run."""
    (case,) = [c for c in cases(("add",), "relax") if c.id == "add[bfloat16-special_values]"]
    inputs = data.inputs(case.graph, 0)
    (expected,) = evaluation.evaluate(case.graph, inputs)
    right = expected.value.astype(ml_dtypes.bfloat16)
    poison = right.view("uint16") == 0x7F7F
    assert (poison & expected.ambiguous).any() and not (poison & ~expected.ambiguous).any()

    def found(array: np.ndarray) -> bool:
        evidence = Evidence(case.graph, [inputs], {}, [[expected]], first_run(array), JobReport())
        return any(outputs_written.judge(evidence))

    assert not found(right)
    judged = np.argwhere(~expected.ambiguous)[0]
    right.view("uint16")[tuple(judged)] = 0x7F7F
    assert found(right)


def test_a_few_wrong_values_equal_to_the_poison_count_as_written() -> None:
    """The value is 127 as int8. A few of them among wrong values are chance; if nearly all wrong
    values are 127, they were not written."""
    (case,) = [c for c in cases(("nn.relu",), "relay") if c.id == "nn.relu[int8]"]
    inputs = data.inputs(case.graph, 0)
    (expected,) = evaluation.evaluate(case.graph, inputs)
    wrong = np.where(expected.value > 100, 1, 100).astype("int8")
    for number, unwritten in ((2, False), (wrong.size - 2, True)):
        array = wrong.copy()
        array.reshape(-1)[:number] = 127
        evidence = Evidence(case.graph, [inputs], {}, [[expected]], first_run(array), JobReport())
        assert any(outputs_written.judge(evidence)) == unwritten


@pytest.mark.parametrize(
    ("value", "llvm", "more", "found"),
    [
        (np.inf, 9.0, {}, True), (np.nan, 9.0, {}, True), (0.0, 9.0, {}, True), (3.0, 9.0, {}, False),
        (np.inf, np.inf, {}, False), (0.0, 0.0, {}, False),
        (np.inf, None, {}, False), (np.inf, None, {"awaits_llvm": True}, True),
        (np.inf, 9.0, {"lower_precision": True}, False),
    ],
)  # fmt: skip
def test_a_lost_value_is_wrong_although_the_bound_judges_nothing(
    value: float, llvm: float | None, more: dict[str, bool], found: bool
) -> None:
    """A norm over thousands of elements of float16, whose sums overflow in the target."""
    expected = Bounded(np.full(3, 8.0), np.full(3, 4000.0), np.zeros(3, bool), "float16")
    graph = Graph((Source("x0", TensorType((3,), "float16")),), (), (), ("x0",))
    reference = JobReport() if llvm is None else first_run(np.full(3, llvm, "float16"))
    evidence = Evidence(graph, [], {}, [[expected]], JobReport(), reference, **more)
    array = np.array([7.0, value, 9.0], "float16")
    findings = list(evidence.compare("numerics", "wrong-value", 0, [array], "with the vm executor"))
    assert [(f.kind, f.details["index"]) for f in findings] == ([("not-finite", [1])] if found else [])


def test_kinds_of_wrong_finite_and_non_finite_values_differ() -> None:
    expected = exact(np.array([np.nan, np.inf, 1.0], "float32"))
    graph = Graph((Source("x0", TensorType((3,), "float32")),), (), (), ("x0",))
    evidence = Evidence(graph, [], {}, [[expected]], JobReport(), JobReport())
    for values, kind in (
        ([0, np.inf, 1], "not-finite"), ([np.nan, 5, 1], "not-finite"), ([0, 0, 2], "wrong-value"),
        ([np.nan, np.inf, 1.001], "wrong-value"),
    ):
        (finding,) = evidence.compare("numerics", "wrong-value", 0, [np.array(values, "float32")], "here")
        assert finding.kind == kind


def test_inexact_and_wrong_values_differ_in_kind_but_shrink_alike() -> None:
    bounded = Bounded(np.ones(3), np.full(3, 1e-6), np.zeros(3, bool), "float32")
    graph = Graph((Source("x0", TensorType((3,), "float32")),), (), (), ("x0",))
    evidence = Evidence(graph, [], {}, [[bounded]], JobReport(), JobReport())
    verdicts = []
    for values, kind in (([1, 1.00001, 1], "inexact"), ([1, 1.0001, 1.00001], "wrong-value")):
        (finding,) = evidence.compare("numerics", "wrong-value", 0, [np.array(values, "float32")], "here")
        assert finding.kind == kind
        verdicts.append(Verdict(graph, "wrong-result", (finding,)))
    inexact, wrong = verdicts
    assert inexact.signature != wrong.signature and inexact.fails_like(wrong)
    # A failure in the first run may replace one in a second run while shrinking, but not the
    # reverse.
    (finding,) = evidence.compare("rerun", "second-run", 0, [np.array([1, 2, 1], "float32")], "here")
    later = Verdict(graph, "wrong-result", (finding,))
    assert wrong.fails_like(later) and not later.fails_like(wrong)


def test_the_partitioned_module_is_recorded_before_the_build() -> None:
    """Relay's build changes attributes that the module shares."""
    sent: list[Any] = []
    ir = SimpleNamespace(
        lower=lambda graph, constants: ({"text": "as partitioned", "main": None}, []),
        check_partitioned=lambda module: module,
        main_type=lambda module: ([], []),
        same_function=lambda one, other: True,
        scopes=dict,
        modules=SimpleNamespace(outline=lambda module: [module["text"]]),
    )
    target = ResolvedTarget("mine", lambda module: module, {})
    # The module cannot be built: the error is reported, and no source is recorded.
    reporter = SimpleNamespace(send=sent.append, stage=lambda name: None, stage_name="build")
    job = {"inputs": [], "constants": {}, "checks": ["reproducible"], "executors": ["vm"]}
    run = TargetRun(ir, target, sample(), job, reporter)  # type: ignore[arg-type]
    run.partitioned()["text"] = "as built"
    reproducible.observe(run)
    assert [m["value"] for m in sent if m.get("fact") == "outline"] == [["as partitioned"]]
    assert "raised" in sent[-1] and not any(m.get("fact") == "source" for m in sent)


def test_the_first_different_line_of_two_sources_is_reported() -> None:
    region = {"symbol": "r", "calls": ["nn.relu -> float32[2,3]"], "composites": []}
    regions = ("regions", {"regions": [region], "nodes": region["calls"]})
    one, other = (
        ("source", {"digest": text, "lines": ["void r() {", f"  {text};", "}"]}) for text in ("a", "b")
    )
    for second, expected in ((one, []), (other, ["source"])):
        evidence = Evidence(
            sample(), [], {}, [], recorded(regions, one), JobReport(), again=recorded(regions, second)
        )
        findings = list(reproducible.judge(evidence))
        assert [f.kind for f in findings] == expected
        assert all("in line 2: first '  a;', then '  b;'" in f.message for f in findings)


def test_a_second_worker_must_offload_the_same() -> None:
    region = {"symbol": "r", "calls": ["nn.relu -> float32[2,3]"], "composites": []}
    kept, dropped = (recorded(("regions", {"regions": r, "nodes": region["calls"]})) for r in ([region], []))
    for again, expected in ((kept, []), (dropped, ["structure"])):
        evidence = Evidence(sample(), [], {}, [], kept, JobReport(), again=again)
        assert [f.kind for f in reproducible.judge(evidence)] == expected


@pytest.mark.parametrize("check", [truncated, missing_library])
def test_a_wrong_result_with_missing_data_or_libraries_is_a_finding(check: Any) -> None:
    right, wrong = np.ones((2, 3), "float32"), np.zeros((2, 3), "float32")
    key, where = {
        truncated: ("cut_off", "loader"), missing_library: ("without_libraries", "without_libraries"),
    }[check]
    for array, expected in ((right, []), (wrong, ["unnoticed"])):
        reports = {where: recorded((key, [array]))}
        evidence = Evidence(sample(), [], {}, [], first_run(right), JobReport(), **reports)
        assert [f.kind for f in check.judge(evidence)] == expected
    # TVM itself does not detect truncated data either.
    evidence.deployed = recorded((key, [wrong]))
    assert check is missing_library or not list(check.judge(evidence))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_all_nans_compare_equal(dtype: str) -> None:
    bits = {"float16": 0x7E00, "bfloat16": 0x7FC0, "float32": 0x7FC00000}[dtype]
    size = "uint32" if dtype == "float32" else "uint16"
    sign = 1 << (31 if dtype == "float32" else 15)
    one, other = (np.array([b, 0], size).view(np.dtype(dtype)) for b in (bits, bits | sign))
    evidence = Evidence(sample(), [], {}, [], JobReport(), JobReport())
    assert not list(evidence.same_bits("rerun", "run", "differs", [one], [other], "a run"))
    zero = np.zeros(2, one.dtype)
    assert list(evidence.same_bits("rerun", "run", "differs", [zero], [-zero], "a run"))


# --- memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [50, 10])
def test_memory_growth_per_round(rounds: int) -> None:
    used = [0, 99999, *(99999 + 30 * rounds * i for i in (1, 2, 3))]
    measured = {"used": used, "opened": [3] * 5, "mapped": [0] * 5, "size": 1, "rounds": rounds}
    assert memory.growth(measured, "used") == 30
    evidence = Evidence(sample(), [], {}, [], JobReport(), JobReport(), recorded(("memory", measured)))
    assert [f.kind for f in memory.judge(evidence)] == ["leak"]
    evidence.deployed = recorded(("memory", measured))
    assert not list(memory.judge(evidence))
    # Kinds of growth are independent: TVM's growth of one kind does not excuse another kind.
    for counter, kind in (("mapped", "mappings"), ("opened", "descriptors")):
        grows = {**measured, "used": [0] * 5, counter: [9000 * rounds * i for i in range(5)]}
        evidence.loader, evidence.deployed = recorded(("memory", grows)), recorded(("memory", measured))
        assert [f.kind for f in memory.judge(evidence)] == [kind]
        evidence.deployed = recorded(("memory", grows))
        assert not list(memory.judge(evidence))
    # Each thread leaks the memory, which is reported once.
    by_threads = dict(measured, used=[2 * u for u in used])
    evidence.loader = recorded(("memory_of_threads", by_threads))
    assert [f.kind for f in memory.judge(evidence)] == ["threads"]
    evidence.loader = recorded(("memory", measured), ("memory_of_threads", by_threads))
    evidence.deployed = JobReport()
    assert [f.kind for f in memory.judge(evidence)] == ["leak"]


class _Stages:
    def stage(self, name: str) -> None:
        pass


@pytest.mark.parametrize(("until", "stretches", "leaks"), [(0, 4, False), (150, 7, False), (10**9, 12, True)])
def test_growth_that_ends_once_a_cache_is_full_is_no_leak(until: int, stretches: int, leaks: bool) -> None:
    """Memory in use grows by 100 bytes after each of the first `until` rounds."""
    done = [0]

    def once() -> None:
        done[0] += 1

    measured = memory._usage(_Stages(), 100, once, lambda: 100 * min(done[0], until))  # type: ignore[arg-type]
    assert measured["rounds"] == 25 and len(measured["used"]) == stretches + 1
    assert (memory.growth(measured, "used") > 0) == leaks


def test_memory_of_all_threads_is_counted() -> None:
    """Threads that malloc serves from arenas of their own count, too."""
    kept: list[Any] = []
    before = memory._in_arenas()
    memory._apart(lambda: kept.extend(bytearray(100_000) for _ in range(100)))()
    # Other threads of the tests' process may allocate or free some 100 kB meanwhile.
    assert 9_000_000 < memory._in_arenas() - before < 11_000_000
    kept.clear()
    assert memory._in_arenas() - before < 1_000_000


class _Slow:
    def fresh(self) -> _Slow:
        return self

    def run(self, inputs: Mapping[str, np.ndarray]) -> None:
        time.sleep(0.02)


def test_slow_runs_get_fewer_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SECONDS", 2.0)
    rounds = memory._rounds(_Slow(), {})
    assert memory.LEAST < rounds <= 100 and rounds % 4 == 0


# --- threads ---------------------------------------------------------------------------------------


class _Run:
    """A loader's run, with the attributes that a race needs."""

    inputs = ({},)

    def __init__(self, deterministic: bool) -> None:
        self.deterministic = deterministic

    def stage(self, name: str) -> None:
        pass


class _Racing:
    """Returns the given values one after the other, and then the last one repeatedly."""

    def __init__(self, *values: float) -> None:
        self.values = list(values)

    def run(
        self, inputs: Mapping[str, np.ndarray], ready: Callable[[], object] | None = None
    ) -> tuple[list[np.ndarray], list[str]]:
        if ready:
            ready()
        value = self.values.pop(0) if len(self.values) > 1 else self.values[0]
        return [np.full(2, value, "float32")], []


def test_a_small_difference_does_not_end_a_nondeterministic_race() -> None:
    for deterministic, farthest in ((True, 1e-6), (False, 5.0)):
        executables = [_Racing(1.0 + 1e-6, 1.0, 6.0, 1.0), *(_Racing(1.0) for _ in range(3))]
        alone = [[[np.ones(2, "float32")]] for _ in executables]
        wrong = threads._race(_Run(deterministic), executables, alone, 5)  # type: ignore[arg-type]
        assert threads._distance(wrong[0]) == pytest.approx(farthest, rel=0.1)


def test_a_sum_in_16_bits_that_overflows_in_one_of_llvms_builds_is_not_the_targets() -> None:
    """LLVM keeps such a sum in 16 bits or in 32, as the code around it goes."""
    (case,) = [c for c in cases(("mean",), "relax") if c.id == "mean[float16-sums_overflow]"]
    inputs = data.inputs(case.graph, 0)
    (expected,) = evaluation.evaluate(case.graph, inputs)
    right = expected.value.astype("float16")
    infinite = np.full_like(right, np.inf)
    for facts, check in (("outputs", numerics), ("inlined", inline_back)):
        report = recorded((facts, {"set": 0, "arrays": [infinite]}))
        evidence = Evidence(case.graph, [inputs], {}, [[expected]], report, first_run(right))
        assert any(check.judge(evidence)) == (check is numerics)


def test_a_number_outside_of_a_bound_that_judges_little_is_wrong() -> None:
    """The bound is larger than the value, and the number is further off than that."""
    bounded = Bounded(np.array([1.0, 2.0]), np.array([50.0, 50.0]), np.array([False, False]), "float32")
    for number, outside in ((49.0, False), (60.0, True), (np.inf, False), (np.nan, False)):
        found = compare(np.array([number, 2.0], "float32"), bounded)
        assert found.outside.tolist() == [outside, False] and not found.judged.any()
