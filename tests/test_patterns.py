"""Graphs made from a target's patterns: ways, instances, near misses, the search."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_byoc.claims import Claims
from pytest_byoc.generation.patterns import (
    NoInstance,
    Pattern,
    instance,
    made_of,
    near_misses,
    parse,
    search,
    ways,
)
from pytest_byoc.graph import Graph
from pytest_byoc.operators import OPERATORS
from pytest_byoc.worker.client import Worker

from .conftest import MEMORY_BYTES, PYTHON

WILD = {"is": "wildcard"}
CONSTANT = {"is": "constant"}


def call(op: str, *args: int) -> dict[str, object]:
    return {"is": "call", "ops": [op], "args": list(args), "more": False}


#: conv2d, then perhaps bias_add, then relu or clip.
CONV = parse(
    "conv",
    [
        WILD,
        CONSTANT,
        call("nn.conv2d", 0, 1),
        CONSTANT,
        call("nn.bias_add", 2, 3),
        {"is": "or", "of": [4, 2]},
        {"is": "call", "ops": ["nn.relu", "clip"], "args": [5], "more": False},
    ],
)
#: x * sigmoid(x)
SWISH = parse("swish", [WILD, call("sigmoid", 0), call("multiply", 0, 1)])


def operators(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes]


def test_ways_take_every_branch() -> None:
    made = {tuple(operators(instance(CONV, way, "relay", 0))) for way in ways(CONV)}
    firsts = {names[:-1] for names in made}
    assert firsts == {("nn.conv2d", "nn.bias_add"), ("nn.conv2d",)}
    assert {names[-1] for names in made} == {"nn.relu", "clip"}


def test_constants_of_a_pattern_are_constants() -> None:
    for seed in range(20):
        graph = instance(CONV, {}, "relay", seed)
        assert len(graph.constants) == 2 and len(graph.inputs) == 1
        assert graph == instance(CONV, {}, "relay", seed), "the same seed makes the same graph"


def test_a_leaf_used_twice_is_one_value() -> None:
    for seed in range(20):
        graph = instance(SWISH, {}, "relax", seed)
        assert operators(graph) == ["sigmoid", "multiply"]
        assert graph.nodes[1].inputs == (graph.nodes[0].inputs[0], graph.nodes[0].outputs[0])


def test_attributes_and_dtypes_a_pattern_demands_are_met() -> None:
    demand = {"is": "with", "of": [2], "attrs": {"data_layout": "NHWC"}}
    typed = {"is": "with", "of": [3], "dtype": "float16"}
    pattern = parse("nhwc", [WILD, WILD, call("nn.conv2d", 0, 1), demand, typed])
    for seed in range(10):
        (node,) = instance(pattern, {}, "relay", seed).nodes
        assert node.attrs["data_layout"] == "NHWC" and node.types[0].dtype == "float16"


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([WILD], "no operator makes"),
        ([WILD, call("nonsense", 0)], "nonsense has no record"),
        ([WILD, {"is": "call", "ops": None, "args": [0], "more": False}], "no operator, a PrimFunc"),
        ([WILD, call("add", 0)], "add takes 2 operands, the pattern has 1"),
    ],
)
def test_what_no_graph_can_be_made_for_is_said(nodes: Sequence[dict[str, object]], reason: str) -> None:
    with pytest.raises(NoInstance, match=reason):
        instance(parse("p", nodes), {}, "relay", 0)


def test_patterns_of_chosen_operators() -> None:
    assert made_of(CONV, {"nn.conv2d", "nn.bias_add", "clip"}, "relay")
    assert not made_of(CONV, {"nn.conv2d", "nn.bias_add"}, "relay")
    assert made_of(SWISH, set(OPERATORS), "relax") and not made_of(SWISH, {"sigmoid"}, "relax")


def test_near_misses_are_valid_and_different() -> None:
    graph = instance(CONV, {}, "relay", 0)
    found = dict(near_misses(graph, "relay"))
    labels = list(found)
    assert len(set(found.values())) == len(found) > 15 and graph not in found.values()
    for kind in ("nn.conv2d.strides", "nn.conv2d.groups", "float16", "input_c0", "returned_nn.conv2d"):
        assert any(label.startswith(kind) for label in labels), kind
    for near in found.values():
        for node in near.nodes:
            types = OPERATORS[node.op].infer([near.type_of(i) for i in node.inputs], node.attrs)
            assert types == node.types


def test_the_search_finds_what_is_taken_and_says_why_not() -> None:
    def only_strided(graphs: Sequence[Graph]) -> list[frozenset[str] | None]:
        return [frozenset({"conv"} if g.nodes[0].attrs["strides"] == (2, 2) else {"other"}) for g in graphs]

    found = search(CONV, "relay", only_strided)
    assert found.fragments and not found.reason
    assert all(f.graph.nodes[0].attrs["strides"] == (2, 2) for f in found.fragments)
    never = search(CONV, "relay", lambda graphs: [frozenset({"other"}) for _ in graphs])
    assert not never.fragments and never.reason == "graphs of its structure are taken for other"
    refused = search(CONV, "relay", lambda graphs: [frozenset() for _ in graphs])
    assert "refuses all that were tried" in refused.reason
    raising = search(CONV, "relay", lambda graphs: [None for _ in graphs])
    assert raising.reason == "partitioning raises"


# --- with TVM ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def claims(ir: str) -> object:
    reference = "pytest_byoc.examples.example_c:target"
    worker = Worker(
        PYTHON,
        {
            "role": "target", "ir": ir, "memory": MEMORY_BYTES, "libraries": [], "sys_path": [],
            "target": {"name": "example_c", "reference": reference, "options": {}},
        },
        60.0,
    )
    worker.start()
    worker.ready()
    yield Claims(worker)
    worker.stop()


def test_every_pattern_of_example_c_is_matched(claims: Claims, ir: str) -> None:
    patterns: list[Pattern] = claims.patterns()
    assert len(patterns) >= (6 if ir == "relay" else 40)
    for pattern in patterns:
        found = search(pattern, ir, claims.composites)
        assert found.fragments, found.reason
        for fragment in found.fragments:
            claim = claims.known(fragment.graph)
            assert claim is not None and any(claim.offloaded) and pattern.name in claim.composites


def test_near_misses_of_example_c_are_partitioned(claims: Claims, ir: str) -> None:
    """What is one step off is a graph all the same: TVM takes it, and so does the partition function."""
    for pattern in claims.patterns()[:6]:
        graph = search(pattern, ir, claims.composites).fragments[0].graph
        found = dict(near_misses(graph, ir))
        claims.survey(found.values())
        bad = [label for label, near in found.items() if claims.known(near) is None]
        assert not bad, (pattern.name, bad)
