"""Tests of graphs examined together in one module: a pass counts for each graph, a failure is
assigned to its graph."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fixtures.faults import FAULTS, apply
from pytest_byoc.config import plan
from pytest_byoc.config.effort import ONE
from pytest_byoc.config.levels import LEVELS
from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.core.union import only, positions, split, union
from pytest_byoc.evidence.evidence import Evidence
from pytest_byoc.examination.examiner import Examiner
from pytest_byoc.examination.outcome import NOT_OFFLOADED, PASS, ConformanceFailure
from pytest_byoc.examination.partitions import Partitions
from pytest_byoc.generation import data, systematic
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.oracle.evaluation import evaluate
from pytest_byoc.record.likely_causes import likely_causes
from pytest_byoc.record.target_record import TargetRecord
from pytest_byoc.suite import batching
from pytest_byoc.suite.batching import Examinations
from pytest_byoc.suite.known_failures import KnownFailures
from pytest_byoc.suite.session import TargetSession

from .conftest import FIXTURES, PYTHON, declaration, make_settings

IMAGE = (1, 3, 4, 4)

#: The effort of level full for a graph of no kind, and the effort of level smoke.
IN_FULL = plan.every_graph()
LOW_EFFORT = replace(IN_FULL, executors=ONE, with_llvm=False)


def test_a_union_computes_the_values_of_its_graphs() -> None:
    graphs = some(4, 11, operators=["add", "nn.conv2d", "split", "nn.softmax"], max_nodes=4)
    whole = union(graphs)
    assert Graph.from_json(whole.to_json()) == whole
    values = evaluate(whole, {**data.constants(whole), **data.inputs(whole, 0)})
    alone = [b for g in graphs for b in evaluate(g, {**data.constants(g), **data.inputs(g, 0)})]
    assert len(values) == len(alone) > 4
    for a, b in zip(values, alone):
        np.testing.assert_array_equal(a.value, b.value)
        np.testing.assert_array_equal(a.error, b.error)


def test_batches_are_neighbouring_graphs_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "ELEMENTS", 8000)
    monkeypatch.setitem(batching.NODES, "relay", 64)
    small = [c.graph for c in systematic.cases(["nn.relu"], None)][:19]
    large = max((c.graph for c in systematic.cases(["nn.dense"], None)), key=lambda g: g.elements)
    long = some(3, 5, operators=["add"], min_nodes=40, max_nodes=40)
    assert large.elements > batching.ELEMENTS
    batches = list(batching.groups([*small, large, *long, small[0], small[1]], "relay"))
    assert [g.positions for g in batches] == [
        tuple(range(8)), tuple(range(8, 16)), (16, 17, 18), (22, 23, 24),
    ]
    for group in batches:
        assert len(group.graphs) == len(group.positions) <= batching.GRAPHS
        assert sum(len(g.nodes) for g in group.graphs) <= batching.NODES["relay"]


def run(pytester: pytest.Pytester, ir: str, *more: str) -> pytest.RunResult:
    pytester.makefile(".ini", pytest="[pytest]\n")
    return pytester.runpytest_subprocess(
        f"--byoc-target={FIXTURES}/targets/particular.py:target", f"--byoc-ir={ir}",
        f"--byoc-python={PYTHON}", "--byoc-report=out", "--byoc-operators=nn.relu", "-p", "no:cacheprovider",
        *more,
    )


def test_one_wrong_case_fails_and_its_neighbours_pass(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARTICULAR", "scalars")
    result = run(pytester, ir, "-k", "test_operators and float32")
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    cases = report["cases"]
    assert cases["nn.relu[float32-shape_scalar]"].startswith("error")
    assert cases["nn.relu[float32-shape_7]"] == cases["nn.relu[float32-nan]"] == "pass"
    passed = [c for c in cases.values() if c == "pass"]
    assert len(passed) > 10
    assert result.parseoutcomes()["failed"] == 1 and result.parseoutcomes()["passed"] == len(passed)
    result.stdout.no_fnmatch_line("*beside the others*")


@pytest.mark.parametrize(
    "more", [(), pytest.param(("-n", "2"), marks=pytest.mark.once)], ids=["alone", "xdist"]
)
def test_a_failure_only_of_several_graphs_together_is_a_failure(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PARTICULAR", "outputs")
    # These cases are in one phase, and so in one module.
    few = "test_operators and float32-shape and not 3x5 and not 2x3x4x5 and not shape_1"
    result = run(pytester, ir, "-k", few, *more)
    result.assert_outcomes(failed=1, passed=3)
    result.stdout.fnmatch_lines(
        ["*several outputs*", "graph (1 operator, shrunk from 4):", "*but not beside the others*"]
    )


@pytest.mark.once
def test_at_level_full_each_graph_has_its_own_module(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARTICULAR", "outputs")
    result = run(pytester, ir, "--byoc-level=full", "-k", "test_operators and (shape_1 or shape_7)")
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] >= 2


def test_a_union_can_be_split() -> None:
    graphs = some(4, 11, operators=["add", "nn.conv2d", "split", "nn.softmax"], max_nodes=4)
    whole = union(graphs)
    parts = split(whole)
    assert list(parts) == positions(whole) == [0, 1, 2, 3]
    for graph, part in zip(graphs, parts.values()):
        assert [n.op for n in part.nodes] == [n.op for n in graph.nodes]
        assert [s.type for s in part.sources()] == [s.type for s in graph.sources()]
    left = only(whole, (1, 3))
    assert positions(left) == [1, 3] and left.nodes == (*parts[1].nodes, *parts[3].nodes)
    assert only(whole, range(4)) == whole


@pytest.fixture
def opened(tmp_path: Path, ir: str) -> Iterator[Examiner]:
    yield from session(tmp_path, ir, "example_c")


def session(folder: Path, ir: str, target: str) -> Iterator[Examiner]:
    examiner = Examiner(make_settings(folder), declaration(target, ir))
    examiner.open()
    yield examiner
    examiner.close()


def examinations(examiner: Examiner) -> Examinations:
    record = TargetRecord("example_c", examiner.workers.ir, {})
    return Examinations(examiner, KnownFailures(examiner, record, most=20))


def test_graphs_partitioned_separately_are_judged_in_one_module(opened: Examiner, ir: str) -> None:
    """Each is partitioned as if it were alone; graphs of which nothing is offloaded are left out
    and known as such."""
    graphs = [c.graph for op in ("nn.relu", "floor", "nn.softmax", "add") for c in smallest_two(op, ir)]
    assert opened.merges(graphs)
    assert examinations(opened).together(graphs, LOW_EFFORT) is None
    for graph in graphs:
        partition = opened.partitions.known(graph)
        assert partition == Partitions(opened.workers.target).of(graph)
        offloaded = graph.nodes[0].op != "floor"
        assert opened.knows(graph, LOW_EFFORT) == offloaded
        verdict = opened.examine(graph, LOW_EFFORT)
        assert verdict.outcome == (PASS if offloaded else NOT_OFFLOADED)
        assert verdict.offloaded == (offloaded,) and verdict.regions == offloaded


def test_equal_calls_of_several_graphs_are_judged_together(opened: Examiner) -> None:
    """TVM runs the first convolution and the target the second, of the same type: the union has the
    regions that each graph has alone. This also holds where TVM stores equal regions once."""
    mixed, plain, twice = Builder(), Builder(), Builder()
    half = mixed.simple("nn.conv2d", mixed.input(TensorType(IMAGE, "float16")), out_dtype="float32")
    y = plain.simple("nn.conv2d", plain.input(TensorType(IMAGE, "float32")))
    x = [twice.input(TensorType(IMAGE, "float32")) for _ in range(2)]
    graphs = [
        mixed.graph(mixed.simple("nn.relu", half)),
        plain.graph(y),
        twice.graph(*(twice.simple("nn.relu", value) for value in x)),
    ]
    partitions = opened.partitions.survey(graphs)
    assert [c and c.offloaded for c in partitions] == [(False, True), (True,), (True, True)]
    assert examinations(opened).together(graphs, IN_FULL) is None
    assert all(opened.knows(graph, IN_FULL) for graph in graphs)


def test_a_graph_offloaded_only_together_is_examined_alone(
    tmp_path: Path, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARTICULAR", "few")
    graphs = [c.graph for op in ("nn.relu", "nn.softmax") for c in smallest_two(op, ir)[:1]]
    for examiner in session(tmp_path, ir, f"{FIXTURES}/targets/particular.py:target"):
        assert all(c and all(c.offloaded) for c in examiner.partitions.survey(graphs))
        assert examinations(examiner).together(graphs, IN_FULL) is None
        assert [examiner.knows(graph, IN_FULL) for graph in graphs] == [True, False]


def smallest_two(op: str, ir: str) -> list[systematic.Case]:
    return [c for c in systematic.cases([op], ir) if "float32" in c.id][:2]


@pytest.mark.parametrize("attribute", [False, True])
def test_merged_modules_keep_all_regions_and_composites(
    tmp_path: Path, ir: str, monkeypatch: pytest.MonkeyPatch, attribute: bool
) -> None:
    """Modules with attributes, and all Relax modules, are partitioned as a whole, so that nothing
    is lost."""
    if attribute:
        monkeypatch.setenv("PARTICULAR", "attribute")
    graphs = some(6, 7, operators=["add", "nn.conv2d", "split", "nn.softmax", "nn.relu"], max_nodes=4)
    for examiner in session(tmp_path, ir, f"{FIXTURES}/targets/particular.py:target"):
        alone = [c for c in examiner.partitions.survey(graphs) if c is not None and c.regions]
        verdict = examiner.examine_uncached(union(graphs), replace(LOW_EFFORT, merged=True))
    assert len(alone) > 2
    assert verdict.outcome == PASS and isinstance(verdict.evidence, Evidence)
    merged = ir == "relay" and not attribute
    assert [v["merged"] for _, v in verdict.evidence.target.facts("kept")] == [merged]
    regions = verdict.evidence.regions
    assert len(regions) == sum(c.regions for c in alone) == len({r["symbol"] for r in regions})
    assert {c for r in regions for c in r["composites"]} == {name for c in alone for name in c.composites}


def test_a_graph_with_a_known_failure_is_not_built_alone(tmp_path: Path, ir: str) -> None:
    """The module's outputs show which graphs have a failure that two operators have shown already;
    graphs with other failures, or none, are examined alone."""
    path = apply(FAULTS["byte_offset_ignored"], tmp_path)
    session = TargetSession(
        replace(make_settings(tmp_path, 120.0), level=LEVELS["standard"]),
        declaration(f"{path / '__init__.py'}:target", ir),
    )
    session.open()
    # Under Relay's VM TVM's own build reads views wrongly, too.
    session.examiner.workers.strict_views = True
    try:
        for operator in ("exp", "tanh"):
            with pytest.raises(ConformanceFailure):
                session.check(systematic.default_case(operator, "float32").graph, operator)
        others = ("add", "nn.relu", "sigmoid", "subtract", "multiply")
        graphs = [systematic.default_case(o, "float32").graph for o in others]
        graphs.append(systematic.default_case("nn.relu", "float64").graph)
        before = session.examiner._gatherer.count
        assert session.ahead(graphs) is None
        for operator, graph in zip(others, graphs):
            with pytest.raises(ConformanceFailure, match="again, first met in") as raised:
                session.check(graph, operator)
            message = f"{operator}: output 0 (%{graph.outputs[0]}) of a run whose inputs are views"
            assert str(raised.value).startswith(message)
        assert session.examiner._gatherer.count == before + 1
        failures = session.record.failures.values()
        assert [f.operators for f in failures] == [["exp"], ["tanh"]]
        (cause,) = likely_causes(failures)
        assert cause.tests == 7 and set(others) < set(cause.operators)
    finally:
        session.close()
