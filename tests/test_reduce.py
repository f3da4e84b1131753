"""How a failing graph becomes small, and what is not shrunk once more."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.examination.outcome import ConformanceFailure
from pytest_byoc.examination.signature import traits
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.plain import differences
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.generation.reduce import reduce
from pytest_byoc.generation.systematic import cases, default_case
from pytest_byoc.suite.session import TargetSession

from .conftest import FIXTURES, declaration, make_settings

IR = "relay"
FAMILY = ("add", "nn.relu", "exp", "nn.softmax")


class Tried:
    """Fails what holds all of some operators; keeps what it was asked about."""

    def __init__(self, *operators: str) -> None:
        self.operators = set(operators)
        self.graphs: list[Graph] = []

    def __call__(self, graph: Graph) -> bool:
        self.graphs.append(graph)
        return self.operators <= set(graph.operators)


@functools.cache
def holding(*operators: str, nodes: int = 9) -> Graph:
    """A graph of that many nodes, with these operators among them."""
    found = some(40, 3, operators=FAMILY, min_nodes=nodes, max_nodes=nodes)
    return next(g for g in found if set(operators) <= set(g.operators))


def test_what_one_operator_fails_by_shrinks_to_its_simplest_case() -> None:
    fails = Tried("exp")
    small, finished = reduce(holding("exp"), fails, IR)
    assert finished and small.operators == ("exp",)
    assert sum(s.type.size for s in small.sources()) <= 1
    assert fails.graphs[0].operators != holding("exp").operators and len(fails.graphs[0].nodes) == 1


def test_of_a_case_with_much_off_its_default_one_thing_is_left() -> None:
    """What has much off its default comes early; each graph that is tried takes as long as a test."""
    case = next(c.graph for c in cases(["nn.max_pool2d"], IR) if "mixed_2" in c.id)
    tried: list[Graph] = []

    def fails(graph: Graph) -> bool:
        tried.append(graph)
        return max(graph.nodes[0].attrs["dilation"]) > 1

    small, finished = reduce(case, fails, IR)
    assert len(differences(case, IR).attributes) > 2
    assert list(differences(small, IR).attributes) == ["dilation"]
    assert finished and len(tried) < 50 and small.nodes[0].types[0].size == 1
    # One that has a single thing off has few plainer ones.
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
def test_shrinking_goes_on_to_the_end(fault: Rule, shape: tuple[int, ...] | None, left: set[str]) -> None:
    """What of a convolution does not matter is gone, weights of one element among it, wherever it started."""

    def fails(graph: Graph) -> bool:
        node = graph.nodes[0]
        return node.op == "nn.conv2d" and fault(node.attrs, graph.type_of(node.inputs[0]))

    found = [c.graph for c in cases(["nn.conv2d"], IR) if fails(c.graph)]
    assert len(found) > 3
    for graph in found:
        small, finished = reduce(graph, fails, IR)
        assert finished and traits(small, IR) == left
        assert shape is None or small.inputs[0].type.shape == shape
        assert {c.type.size for c in small.constants} <= {1}


def test_of_several_operators_attributes_and_extents_become_small() -> None:
    builder = Builder(seed=1)
    x = builder.input(TensorType((4, 6), "float32"))
    graph = builder.graph(builder.simple("nn.softmax", builder.simple("exp", x), axis=0))
    small, finished = reduce(graph, Tried("exp", "nn.softmax"), IR)
    assert finished and [n.attrs for n in small.nodes] == [{}, {"axis": -1}]
    assert small.inputs[0].type.shape == (1, 1)


def test_what_two_operators_fail_by_keeps_both() -> None:
    small, finished = reduce(holding("exp", "nn.softmax"), Tried("exp", "nn.softmax"), IR)
    assert finished and sorted(n.op for n in small.nodes) == ["exp", "nn.softmax"]


def test_what_fails_only_as_it_is_stays_as_it_is() -> None:
    graph = holding("exp")
    assert reduce(graph, lambda g: False, IR) == (graph, True)


def test_no_graph_is_tried_twice_and_no_more_than_allowed() -> None:
    for allowed in (5, 80):
        fails = Tried("exp", "nn.softmax", "add")
        found = reduce(holding("exp", "nn.softmax", "add"), fails, IR, examinations=allowed)
        assert found.finished == (allowed == 80)
        assert len(fails.graphs) == len(set(fails.graphs)) <= allowed


def test_a_node_whose_failure_is_known_is_not_made_simpler() -> None:
    graph, fails = holding("exp"), Tried("exp")
    small = reduce(graph, fails, IR, known=lambda g: g.operators == ("exp",)).graph
    assert small == fails.graphs[-1] and small.operators == ("exp",)
    assert len(fails.graphs) <= len(graph.nodes)
    assert reduce(graph, Tried("exp"), IR, known=lambda g: g.operators == ("add",)) == reduce(
        graph, Tried("exp"), IR
    )


def test_a_failure_is_shrunk_once(tmp_path: Path, ir: str) -> None:
    """However many graphs show it; each is counted."""
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
