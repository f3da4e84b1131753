"""Tests of the graph value and its JSON."""

from __future__ import annotations

import json

import pytest

from pytest_byoc.core.graph import Graph, GraphFormatError, Source, TensorType, show
from pytest_byoc.generation.builder import Builder
from pytest_byoc.storage.corpus import read


@pytest.fixture
def graph() -> Graph:
    b = Builder(seed=3)
    x = b.input(TensorType((2, 3), "float32"))
    y = b.simple("nn.relu", x)
    b.simple("tanh", y)
    return b.graph(b.node("add", (y, b.constant(TensorType((3,), "float32"))), {})[0], x)


def test_json_round_trip(graph: Graph) -> None:
    assert Graph.from_json(graph.to_json()) == graph
    assert hash(Graph.from_json(graph.to_json())) == hash(graph)


def test_needed_drops_dead_code(graph: Graph) -> None:
    assert [n.op for n in graph.needed().nodes] == ["nn.relu", "add"]


def test_show_names_inputs_nodes_and_outputs(graph: Graph) -> None:
    text = show(graph)
    for part in ("%x0: float32[2,3]", "%v0: float32[2,3] = nn.relu(%x0)", "outputs: %v2, %x0"):
        assert part in text


def test_show_prints_given_elements_only_if_they_are_few() -> None:
    few = Source("x", TensorType((2, 2), "float32"), data=[[1.5, "nan"], [0, -2]])
    long = Source("y", TensorType((9,), "float32"), data=[*range(7), "-inf", -0.0])
    text = show(Graph((few, long), (), (), ("x",)))
    assert "%x: float32[2,2] given: 1.5, nan, 0, -2\n" in text
    assert "%y: float32[9] given, -inf, -0.0 among them\n" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected JSON"),
        ("[]", 'expected an object with "format"'),
        ('{"format": "other"}', "found 'other'"),
        ('{"format": "pytest-byoc/graph", "version": 99}', "expected version 1"),
        ('{"format": "pytest-byoc/graph", "version": 1}', "malformed graph: the field 'inputs' is missing"),
    ],
)
def test_text_that_is_no_graph_is_refused(text: str, message: str) -> None:
    with pytest.raises(GraphFormatError, match=message.replace("[", r"\[")):
        Graph.from_json(text)


def test_dangling_names_are_refused(graph: Graph) -> None:
    for key, value, message in (
        ("outputs", ["nope"], "defines the output 'nope'"),
        ("inputs", [], "reads 'x0'"),
    ):
        broken = {**graph.to_dict(), key: value}
        with pytest.raises(GraphFormatError, match=message):
            Graph.from_dict(broken)


def test_replay_files_are_checked_against_the_type_rules(graph: Graph, tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "g.json"
    path.write_text(graph.to_json())
    assert read(path) == (graph, "")
    obj = graph.to_dict()
    obj["nodes"][0]["outputs"][0]["shape"] = [9]
    path.write_text(json.dumps(obj))
    message = r"g.json: nn.relu makes float32\[2,3\] of .*; the graph says float32\[9\] for v0"
    with pytest.raises(GraphFormatError, match=message):
        read(path)
    obj["nodes"][0]["op"] = "frobnicate"
    path.write_text(json.dumps(obj))
    with pytest.raises(GraphFormatError, match="no operator 'frobnicate'"):
        read(path)
