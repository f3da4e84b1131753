"""Graphs examined side by side in one module: what passes there has passed, what fails is told apart."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pytest_byoc import side_by_side
from pytest_byoc.generation import data, systematic
from pytest_byoc.generation.strategies import some
from pytest_byoc.generation.union import union
from pytest_byoc.graph import Graph
from pytest_byoc.oracle import evaluate

from .conftest import FIXTURES, PYTHON


def test_a_union_computes_what_its_graphs_compute() -> None:
    graphs = some(4, 11, operators=["add", "nn.conv2d", "split", "nn.softmax"], max_nodes=4)
    whole = union(graphs)
    assert Graph.from_json(whole.to_json()) == whole
    values = evaluate(whole, {**data.constants(whole), **data.inputs(whole, 0)})
    alone = [b for g in graphs for b in evaluate(g, {**data.constants(g), **data.inputs(g, 0)})]
    assert len(values) == len(alone) > 4
    for a, b in zip(values, alone):
        np.testing.assert_array_equal(a.value, b.value)
        np.testing.assert_array_equal(a.error, b.error)


def test_groups_are_neighbours_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "ELEMENTS", 8000)
    monkeypatch.setattr(side_by_side, "NODES", 64)
    small = [c.graph for c in systematic.cases(["nn.relu"], None)][:19]
    large = max((c.graph for c in systematic.cases(["nn.dense"], None)), key=side_by_side.elements)
    many = some(3, 5, operators=["add"], min_nodes=40, max_nodes=40)
    assert side_by_side.elements(large) > side_by_side.ELEMENTS
    found = list(side_by_side.groups([*small, large, *many, small[0], small[1]]))
    assert [g.positions for g in found] == [
        tuple(range(8)), tuple(range(8, 16)), (16, 17, 18), (22, 23, 24),
    ]
    for group in found:
        assert len(group.graphs) == len(group.positions) <= side_by_side.GRAPHS
        assert sum(len(g.nodes) for g in group.graphs) <= side_by_side.NODES


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
    result.stdout.no_fnmatch_line("*side by side*")


@pytest.mark.parametrize("more", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_what_fails_side_by_side_alone_is_a_failure(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.setenv("PARTICULAR", "outputs")
    result = run(pytester, ir, "-k", "test_operators and float32-shape", *more)
    result.assert_outcomes(failed=1, passed=8)
    result.stdout.fnmatch_lines(
        ["*several outputs*", "graph (1 operator, shrunk from 6):", "*but not side by side*"]
    )


def test_at_level_full_each_graph_is_alone(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARTICULAR", "outputs")
    result = run(pytester, ir, "--byoc-level=full", "-k", "test_operators and (shape_1 or shape_7)")
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] >= 2
