"""Tests of the measurement of a target's speed: large graphs, ratios, the gate, the report."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_byoc.config.settings import Settings
from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.evidence.speed import Speed, Times
from pytest_byoc.examination.outcome import PASS, Verdict
from pytest_byoc.gate import baseline
from pytest_byoc.gate.baseline_comparison import compare
from pytest_byoc.gate.planned import Selection
from pytest_byoc.gate.problems import Gate
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.enlarging import MOST, enlarged
from pytest_byoc.generation.systematic import default_case
from pytest_byoc.operators import OPERATORS
from pytest_byoc.record.measured import Ratio
from pytest_byoc.record.target_record import TargetRecord
from pytest_byoc.report import changes, html, speed_plot, terminal
from pytest_byoc.report.schema import problems

from .conftest import PYTHON, make_settings
from .test_report import report

EXAMPLE = "pytest_byoc.examples.example_c:target"

# --- graphs ----------------------------------------------------------------------------------------


@pytest.mark.once
@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_larger_graphs_are_well_typed_and_limited(name: str) -> None:
    op = OPERATORS[name]
    graph = default_case(name, op.dtypes[0], op.irs()[0]).graph
    for larger in enlarged(graph):
        assert graph.elements < larger.elements <= MOST
        assert [n.op for n in larger.nodes] == [n.op for n in graph.nodes]
        for node in larger.nodes:
            operands = [larger.type_of(name) for name in node.inputs]
            assert tuple(OPERATORS[node.op].infer(operands, node.attrs)) == node.types
        for one, other in zip(graph.nodes, larger.nodes):
            assert all(a.size <= b.size for a, b in zip(one.types, other.types))


def types(graph: Graph) -> list[str]:
    return [str(source.type) for source in (*graph.inputs, *graph.constants)]


@pytest.mark.once
def test_channels_and_images_grow_and_kernels_do_not() -> None:
    with_weights, images = enlarged(default_case("nn.conv2d", "float32").graph)
    assert types(with_weights) == ["float32[1,64,64,32]", "float32[32,64,3,3]"]
    assert with_weights.nodes[0].attrs["channels"] == 32
    # A target may take a number of channels alone.
    assert types(images)[1] == "float32[4,4,3,3]"


@pytest.mark.once
def test_the_batch_grows_where_nothing_else_can() -> None:
    b = Builder(seed=1)
    graph = b.graph(b.simple("nn.relu", b.input(TensorType((2,), "float32"))))
    (larger,) = enlarged(graph)
    assert types(larger) == ["float32[131072]"]
    b = Builder(seed=1)
    assert list(enlarged(b.graph(b.simple("exp", b.input(TensorType((), "float32")))))) == []


# --- measurements ----------------------------------------------------------------------------------


@pytest.mark.once
def test_times_are_median_and_quartiles() -> None:
    assert Times.of([5.0, 1.0, 3.0, 2.0, 4.0]) == Times(3.0, 2.0, 4.0)
    assert Times.of([2.0]) == Times(2.0, 2.0, 2.0)


def speed(target: float, llvm: float = 2e-6, vary: float = 0.1, **peaks: int) -> Speed:
    target_times, llvm_times = (Times(t, t * (1 - vary), t * (1 + vary)) for t in (target, llvm))
    return Speed("vm", target_times, llvm_times, **peaks)


def recorded(*measured: tuple[str, Speed]) -> TargetRecord:
    record = TargetRecord("mine", "relax", {"tvm": "0.27"})
    b = Builder(seed=1)
    graph = b.graph(b.simple("nn.relu", b.input(TensorType((2, 3), "float32"))))
    verdict = Verdict(graph, PASS, (), (True,), 1, boundary_bytes=48)
    for case, one in measured:
        record.add(replace(verdict, speed=one), case)
    return record


@pytest.mark.once
def test_a_measurement_in_the_report() -> None:
    record = recorded(("speed[nn.relu]", speed(3e-6, target_peak=4096)))
    found = report(record)
    assert problems(found) == []
    (measured,) = json.loads(json.dumps(found["speed"]))
    assert measured == {
        "case": "speed[nn.relu]", "operators": ["nn.relu"], "executor": "vm", "subgraphs": 1,
        "boundary_bytes": 48, "target_us": 3.0, "target_quartiles_us": [2.7, 3.3], "llvm_us": 2.0,
        "llvm_quartiles_us": [1.8, 2.2], "target_peak_bytes": 4096,
    }
    assert str(Ratio.of(measured)) == "1.50 (1.23 to 1.83)"
    # Reports of earlier releases have the medians alone.
    assert Ratio.of({"target_us": 3.0, "llvm_us": 2.0}) == (1.5, 1.5, 1.5)
    assert Ratio.of({"target_us": 3.0, "llvm_us": 0.0}) is None


@pytest.mark.once
def test_the_section_on_speed() -> None:
    record = recorded(
        ("fast", speed(1e-6)), ("slow", speed(8e-6, target_peak=1 << 20)), ("equal", speed(2.1e-6)),
        ("late", speed(2.0, 1.0)),
    )
    section = speed_plot.section(record.speed)
    assert section is not None
    assert [row["case"] for row in section["rows"]] == ["slow", "late", "equal", "fast"]
    assert (section["faster"], section["slower"], section["equal"]) == (1, 2, 1)
    ticks = [tick["text"] for tick in section["plot"]["ticks"]]
    assert ticks == ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]
    # A point above the diagonal, and further up, is one for which LLVM is faster.
    points = {p["title"].split(":")[0]: (float(p["x"]), float(p["y"])) for p in section["plot"]["points"]}
    side = section["plot"]["side"]
    assert points["slow"][0] + points["slow"][1] < side < points["fast"][0] + points["fast"][1]
    page = html.render(report(record))
    assert page.count("<circle") == 4 and "1.0 MiB" in page and "4.00 <small>(3.27 to 4.89)" in page
    assert "speed of 4 graphs: 1.52 times LLVM's time" in "\n".join(t for t, _ in terminal.summary(record))
    assert speed_plot.section([]) is None


# --- the gate --------------------------------------------------------------------------------------


def judged(tmp_path: Path, then: TargetRecord, now: TargetRecord, percent: float = 20.0) -> Gate:
    path = tmp_path / "before.json"
    path.write_text(json.dumps(report(then)))
    gate = Gate()
    settings: Settings = make_settings(tmp_path, slower=percent)
    compare(gate, now, baseline.read(path), Selection().not_run(), settings)
    return gate


@pytest.mark.once
@pytest.mark.parametrize(
    ("now", "percent", "fails"),
    [
        (speed(6e-6), 20.0, True),
        (speed(6e-6), 100.0, False),  # It takes just twice as long.
        (speed(3.6e-6, vary=0.3), 10.0, False),  # The spans overlap.
        (speed(3.1e-6, vary=0.0), 20.0, False),  # Slower, but by less than 20 %.
        (speed(6e-6, 4e-6), 20.0, False),  # The device is slower.
        (speed(1e-6), 0.0, False),
    ],
)  # fmt: skip
def test_the_gate_on_speed(tmp_path: Path, now: Speed, percent: float, fails: bool) -> None:
    gate = judged(tmp_path, recorded(("a", speed(3e-6, vary=0.01))), recorded(("a", now)), percent)
    said = "a: 3.00 (2.45 to 3.67) times LLVM's time, before 1.50 (1.47 to 1.53)"
    assert [list(p.items) for p in gate.problems] == ([[said]] if fails else [])
    assert any("speed compared in 1 cases" in note for note in gate.notes)


@pytest.mark.once
def test_nothing_measured_in_both_sessions_fails(tmp_path: Path) -> None:
    gate = judged(tmp_path, recorded(("a", speed(3e-6))), recorded(("b", speed(3e-6))))
    assert "no graph was measured in both sessions" in gate.problems[0].text


@pytest.mark.once
def test_changes_of_speed_are_remarks(tmp_path: Path) -> None:
    then = report(recorded(("a", speed(3e-6)), ("b", speed(3e-6)), ("c", speed(3e-6))))
    now = report(recorded(("a", speed(6e-6)), ("b", speed(1e-6)), ("c", speed(3.1e-6))))
    found = changes.compare(then, now)
    assert not changes.is_worse(found)
    text = changes.markdown("old", "new", found)
    assert "1 graph slower relative to LLVM, most of all a: 1.50" in text
    assert "1 graph faster relative to LLVM, most of all b: 1.50" in text


# --- sessions --------------------------------------------------------------------------------------


def session(pytester: pytest.Pytester, ir: str, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(
        f"--byoc-target={EXAMPLE}", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "--byoc-level=smoke",
        "--byoc-operators=nn.relu,multiply", "-k", "test_speed", "-p", "no:cacheprovider", *arguments,
        timeout=300,
    )


@pytest.mark.once
def test_a_session_measures_and_gates(pytester: pytest.Pytester, ir: str) -> None:
    assert session(pytester, ir, "--byoc-time", "--byoc-report=one").ret == 0
    path = pytester.path / "one" / "report.json"
    found: dict[str, Any] = json.loads(path.read_text())
    measured = {s["case"]: s for s in found["speed"]}
    assert measured.keys() == {"speed[nn.relu]", "speed[multiply]"}
    for s in measured.values():
        low, high = s["target_quartiles_us"]
        assert 0 < low <= s["target_us"] <= high and s["subgraphs"] == 1
        assert s["boundary_bytes"] > 1 << 19  # Half a MiB goes in, or comes out.
        # The inputs and outputs are in memory at least once.
        assert min(s["target_peak_bytes"], s["llvm_peak_bytes"]) >= s["boundary_bytes"]
    for s in found["speed"]:
        s["target_us"] /= 1000
        s["target_quartiles_us"] = [us / 1000 for us in s["target_quartiles_us"]]
    path.write_text(json.dumps(found))
    gated = session(pytester, ir, f"--byoc-baseline={path}", "--byoc-slower=50")
    assert gated.ret == pytest.ExitCode.TESTS_FAILED
    gated.assert_outcomes(passed=2)
    gated.stdout.fnmatch_lines(["*slower by more than 50 %, relative to LLVM*"])
    assert re.search(r"speed\[nn\.relu\]: .* times LLVM's time, before 0\.", gated.stdout.str())


@pytest.mark.once
def test_speed_is_compared_with_a_baseline_only(pytester: pytest.Pytester, ir: str) -> None:
    result = session(pytester, ir, "--byoc-slower=50")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--byoc-slower compares with a baseline: name one by --byoc-baseline=*"])
    refused = session(pytester, ir, "--byoc-slower=much", "--byoc-baseline=x.json")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*--byoc-slower must be a percentage of at least 0, found 'much'*"])
