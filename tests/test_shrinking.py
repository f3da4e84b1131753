"""Tests of shrinking: how a failing graph becomes small, and which graphs are not shrunk again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_byoc.config import plan
from pytest_byoc.config.effort import Effort
from pytest_byoc.core.finding import WRONG_RESULT, Finding
from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.examination.examiner import Examiner
from pytest_byoc.examination.outcome import PASS, ConformanceFailure, Verdict
from pytest_byoc.examination.signature import traits
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.plain import differences
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.generation.shrink_steps import reduce
from pytest_byoc.generation.systematic import cases, default_case
from pytest_byoc.reference_kernels import KERNELS, Bounded
from pytest_byoc.suite.session import TargetSession
from pytest_byoc.suite.shrinking import Shrinking

from .conftest import FIXTURES, declaration, make_settings

IR = "relay"
FAMILY = ("add", "nn.relu", "exp", "nn.softmax")


class Failing:
    """A predicate that fails graphs with all of some operators, and records the graphs it is called
    with."""

    def __init__(self, *operators: str) -> None:
        self.operators = set(operators)
        self.graphs: list[Graph] = []

    def __call__(self, graph: Graph) -> bool:
        self.graphs.append(graph)
        return self.operators <= set(graph.operators)


@functools.cache
def holding(*operators: str, nodes: int = 9) -> Graph:
    """Returns a random graph with that many nodes that contains these operators."""
    graphs = some(40, 3, operators=FAMILY, min_nodes=nodes, max_nodes=nodes)
    return next(g for g in graphs if set(operators) <= set(g.operators))


def test_a_failure_of_one_operator_shrinks_to_its_simplest_case() -> None:
    fails = Failing("exp")
    small, finished = reduce(holding("exp"), fails, IR)
    assert finished and small.operators == ("exp",)
    assert sum(s.type.size for s in small.sources()) <= 1
    assert fails.graphs[0].operators != holding("exp").operators and len(fails.graphs[0].nodes) == 1


def test_a_case_with_many_differences_shrinks_to_one_difference() -> None:
    """Cases with many differences come early in a session; each graph tried costs as much as a
    test."""
    case = next(c.graph for c in cases(["nn.max_pool2d"], IR) if "mixed_2" in c.id)
    tried: list[Graph] = []

    def fails(graph: Graph) -> bool:
        tried.append(graph)
        return max(graph.nodes[0].attrs["dilation"]) > 1

    small, finished = reduce(case, fails, IR)
    assert len(differences(case, IR).attributes) > 2
    assert list(differences(small, IR).attributes) == ["dilation"]
    assert finished and len(tried) < 50 and small.nodes[0].types[0].size == 1
    # A graph with a single difference has few simpler ones.
    tried.clear()
    assert reduce(small, fails, IR).graph.nodes == small.nodes and len(tried) < 12


Rule = Callable[[Mapping[str, Any], TensorType], bool]


@pytest.mark.parametrize(
    ("fault", "shape", "left"),
    [
        (lambda attrs, x: x.shape[0] > 1, (2, 1, 1, 1), {"operand 0: axis -4 > 1"}),
        (lambda attrs, x: max(attrs["dilation"]) > 1, (1, 1, 1, 1), {"dilation=[1, 2]"}),
        (lambda attrs, x: attrs["data_layout"] == "NHWC", (1, 1, 1, 1), {'data_layout="NHWC"'}),
        (lambda attrs, x: attrs["padding"][3] > attrs["padding"][1], None, {"padding=[0, 0, 0, 1]"}),
    ],
    ids=["batch", "dilation", "layout", "padding"],
)
def test_all_irrelevant_parts_are_removed(fault: Rule, shape: tuple[int, ...] | None, left: set[str]) -> None:
    """All irrelevant attributes and extents of a convolution are removed, for every failing case;
    its weight has one element."""

    def fails(graph: Graph) -> bool:
        node = graph.nodes[0]
        return node.op == "nn.conv2d" and fault(node.attrs, graph.type_of(node.inputs[0]))

    failing = [c.graph for c in cases(["nn.conv2d"], IR) if fails(c.graph)]
    assert len(failing) > 3
    for graph in failing:
        small, finished = reduce(graph, fails, IR)
        assert finished and traits(small, IR) == left
        assert shape is None or small.inputs[0].type.shape == shape
        assert {c.type.size for c in small.constants} <= {1}


def test_attributes_and_extents_of_several_operators_become_small() -> None:
    builder = Builder(seed=1)
    x = builder.input(TensorType((4, 6), "float32"))
    graph = builder.graph(builder.simple("nn.softmax", builder.simple("exp", x), axis=0))
    small, finished = reduce(graph, Failing("exp", "nn.softmax"), IR)
    assert finished and [n.attrs for n in small.nodes] == [{}, {"axis": -1}]
    assert small.inputs[0].type.shape == (1, 1)


def test_a_failure_of_two_operators_keeps_both() -> None:
    small, finished = reduce(holding("exp", "nn.softmax"), Failing("exp", "nn.softmax"), IR)
    assert finished and sorted(n.op for n in small.nodes) == ["exp", "nn.softmax"]


def test_a_graph_without_a_failing_simpler_graph_is_kept() -> None:
    graph = holding("exp")
    assert reduce(graph, lambda g: False, IR) == (graph, True)


def test_every_graph_that_is_tried_has_a_node() -> None:
    """Also where an output has become an input, since the node that computed it is gone."""
    builder = Builder(seed=1)
    x = builder.input(TensorType((4, 6), "float32"))
    graph = builder.graph(x, builder.simple("nn.relu", x), builder.simple("exp", x))
    fails = Failing("exp", "nn.relu")
    small, finished = reduce(graph, fails, IR)
    assert finished and len(small.nodes) == 2
    assert all(tried.nodes for tried in fails.graphs)


def test_every_graph_that_is_tried_has_an_output() -> None:
    """Also where one part of the graph has none, since nothing reads its results."""
    builder = Builder(seed=1)
    x, y = (builder.input(TensorType((4, 6), "float32")) for _ in range(2))
    builder.simple("exp", builder.simple("nn.relu", x))
    graph = builder.graph(builder.simple("nn.relu", builder.simple("exp", y)))
    fails = Failing("exp", "nn.relu")
    small, finished = reduce(graph, fails, IR)
    assert finished and len(small.nodes) == 2
    assert all(tried.outputs for tried in fails.graphs)


def test_graphs_are_tried_once_and_within_the_limit() -> None:
    for allowed in (5, 80):
        fails = Failing("exp", "nn.softmax", "add")
        reduced = reduce(holding("exp", "nn.softmax", "add"), fails, IR, examinations=allowed)
        assert reduced.finished == (allowed == 80)
        assert len(fails.graphs) == len(set(fails.graphs)) <= allowed


def test_a_node_with_a_known_failure_is_not_shrunk_further() -> None:
    graph, fails = holding("exp"), Failing("exp")
    small = reduce(graph, fails, IR, known=lambda g: g.operators == ("exp",)).graph
    assert small == fails.graphs[-1] and small.operators == ("exp",)
    assert len(fails.graphs) <= len(graph.nodes)
    assert reduce(graph, Failing("exp"), IR, known=lambda g: g.operators == ("add",)) == reduce(
        graph, Failing("exp"), IR
    )


@pytest.mark.once
def test_a_failure_is_shrunk_once_and_counted_for_each_graph(tmp_path: Path, ir: str) -> None:
    """Three graphs show the failure."""
    settings = replace(make_settings(tmp_path, 120.0), operators=("exp", "nn.relu"))
    session = TargetSession(settings, declaration(f"{FIXTURES / 'targets' / 'hostile.py'}:segfault", ir))
    session.open()
    try:
        examined, texts = [], []
        for graph in (*some(2, 1, operators=["exp"], max_nodes=1), default_case("exp", "float64").graph):
            before = session.examiner._gatherer.count
            with pytest.raises(ConformanceFailure) as raised:
                session.check(graph)
            examined.append(session.examiner._gatherer.count - before)
            texts.append(str(raised.value))
        (failure,) = session.record.failures.values()
    finally:
        session.close()
    assert failure.count == 3 and failure.operators == ["exp"]
    assert examined[0] > 1 and examined[1:] == [1, 1]
    assert "saved in" in texts[0] and all(f"failure {failure.id} again" in text for text in texts[1:])


@pytest.mark.once
def test_a_kernel_that_raises_for_smaller_graphs_loses_no_failure(
    tmp_path: Path, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = KERNELS["exp"]

    def broken(inputs: Sequence[Bounded], attrs: Mapping[str, Any]) -> Bounded | tuple[Bounded, ...]:
        if inputs[0].value.size < 15:
            raise ValueError("too small")
        return usual(inputs, attrs)

    monkeypatch.setitem(KERNELS, "exp", broken)
    settings = replace(make_settings(tmp_path, 120.0), operators=("exp", "nn.relu"))
    session = TargetSession(settings, declaration(f"{FIXTURES / 'targets' / 'hostile.py'}:segfault", ir))
    session.open()
    try:
        b = Builder(seed=1)
        y = b.simple("nn.relu", b.simple("exp", b.input(TensorType((3, 5), "float32"))))
        with pytest.raises(ConformanceFailure):
            session.check(b.graph(y))
        (failure,) = session.record.failures.values()
        assert failure.operators == ["exp"]
        (note,) = [text for text in session.record.not_checked if "the reference kernel of exp" in text]
        assert "raised ValueError (too small)" in note
    finally:
        session.close()


class _Examiner:
    """A stand-in for an examiner: graphs fail, but those of one operator fail with TVM alone too."""

    def __init__(self) -> None:
        self.brief: list[Graph] = []
        self.full: list[Graph] = []

    def look_briefly(self, graph: Graph, effort: Effort, finding: Finding) -> Verdict:
        self.brief.append(graph)
        return _verdict(graph, failed=True)

    def examine(self, graph: Graph, effort: Effort) -> Verdict:
        self.full.append(graph)
        return _verdict(graph, failed=len(graph.nodes) > self.of_tvm)

    #: The number of operators up to which TVM alone fails too.
    of_tvm = 0


def _verdict(graph: Graph, failed: bool) -> Verdict:
    wrong = Finding("numerics", WRONG_RESULT, "compare", "wrong-value", "output 0 is wrong.")
    return Verdict(graph, WRONG_RESULT if failed else PASS, (wrong,) if failed else ())


@pytest.mark.parametrize("of_tvm, left", [(0, 1), (1, 2)])
def test_smaller_graphs_are_examined_briefly_and_the_smallest_in_full(of_tvm: int, left: int) -> None:
    """Where TVM alone fails with the smallest too, all are examined in full."""
    examiner = _Examiner()
    examiner.of_tvm = of_tvm
    original = _verdict(holding("exp", "add", nodes=5), failed=True)
    shrunk, finished = Shrinking(cast(Examiner, examiner), IR, original, lambda verdict: None).run()
    assert len(shrunk.graph.nodes) == left and finished
    assert len(examiner.brief) > 2
    assert examiner.full == [shrunk.graph] if not of_tvm else len(examiner.full) > 2


def test_a_brief_look_builds_for_the_executor_that_the_finding_names(
    tmp_path: Path, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nodes left to TVM are compiled as for every executor."""
    examiner = Examiner(make_settings(tmp_path, 120.0), declaration("example_c", ir))
    graph, effort = default_case("nn.relu", "float32", ir).graph, plan.again("numerics")
    jobs: list[dict[str, Any]] = []
    try:
        examiner.open()
        submit = examiner.workers.target.submit

        def noted(job: dict[str, Any], seconds: float | None = None) -> None:
            jobs.append(job)
            submit(job, seconds)

        monkeypatch.setattr(examiner.workers.target, "submit", noted)
        last = examiner.workers.executors[-1]
        for named in (last, "another"):
            wrong = Finding("numerics", WRONG_RESULT, "compare", "wrong-value", "", {"executor": named})
            assert examiner.look_briefly(graph, effort, wrong).outcome == PASS
        examined = [(job["executors"], job["fast_build"]) for job in jobs if job["kind"] == "examine"]
        assert examined[-2:] == [([last], False), (examiner.workers.executors, False)]
    finally:
        examiner.close()
