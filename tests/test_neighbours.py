"""Tests of graphs that combine an operator with others."""

from __future__ import annotations

from collections import Counter

import pytest

from pytest_byoc.core.graph import Graph, Node
from pytest_byoc.generation.neighbours import between, followed, forms
from pytest_byoc.operators import OPERATORS
from pytest_byoc.operators.measured import dtypes

OTHERS = ("nn.relu", "add", "nn.conv2d", "sigmoid", "sqrt")


@pytest.mark.parametrize("ir", ["relay", "relax"])
@pytest.mark.parametrize("name", OPERATORS)
def test_every_graph_has_the_operator_once_with_a_neighbour(name: str, ir: str) -> None:
    if ir not in OPERATORS[name].irs() or not dtypes(OPERATORS[name], ir):
        pytest.skip(f"nothing of it in {ir}")
    graphs = between(name, dtypes(OPERATORS[name], ir)[0], OTHERS, ir)
    for graph in graphs:
        assert [n.op for n in graph.nodes].count(name) == 1 and 2 <= len(graph.nodes) <= 3
        assert set(graph.operators) <= {name, *OTHERS}
        for node in graph.nodes:
            types = OPERATORS[node.op].infer([graph.type_of(i) for i in node.inputs], node.attrs)
            assert types == node.types


def test_most_operators_have_neighbours() -> None:
    runnable = [n for n, op in OPERATORS.items() if "relay" in op.irs() and dtypes(op, "relay")]
    with_neighbours = [n for n in runnable if between(n, dtypes(OPERATORS[n], "relay")[0], OTHERS, "relay")]
    assert len(with_neighbours) > 0.9 * len(runnable)


def test_neighbours_are_on_both_sides() -> None:
    graphs = between("nn.softmax", "float32", OTHERS, "relay")
    chains = {tuple(n.op for n in g.nodes) for g in graphs}
    assert ("nn.relu", "nn.softmax", "add") in chains
    # Values of another operator may lie outside a domain.
    assert ("sqrt", "nn.softmax", "nn.relu") in chains
    assert not any("sqrt" in chain[1:] for chain in chains)
    alone = between("sqrt", "float32", OTHERS, "relay")
    assert alone and all(g.nodes[0].op == "sqrt" for g in alone)
    assert len(between("nn.conv2d", "float32", OTHERS, "relay")) > 3


@pytest.mark.parametrize("ir", ["relay", "relax"])
@pytest.mark.parametrize("name", OPERATORS)
def test_chains_of_two_are_independent(name: str, ir: str) -> None:
    known = dtypes(OPERATORS[name], ir) if ir in OPERATORS[name].irs() else ()
    graph = followed(name, known[0], OTHERS, ir) if known else None
    if graph is None:
        pytest.skip(f"none of them can stand behind it in {ir}")
    pairs = chains(graph)
    assert len(pairs) * 2 == len(graph.nodes)
    for one, other in pairs:
        assert one.op == name and other.op in OTHERS
        types = OPERATORS[other.op].infer([graph.type_of(i) for i in other.inputs], other.attrs)
        assert types == other.types


def chains(graph: Graph) -> list[tuple[Node, Node]]:
    """Returns each first operator with the operator that reads its result."""
    return [
        (first, next(n for n in graph.nodes if set(first.outputs) & set(n.inputs)))
        for first in graph.nodes
        if not any(set(first.inputs) & set(n.outputs) for n in graph.nodes)
    ]


def test_each_pair_of_few_operators_is_generated() -> None:
    few = ("nn.relu", "clip", "subtract", "sqrt")
    candidates = [(name, followed(name, "float32", few, "relay")) for name in few]
    by_name = {name: graph for name, graph in candidates if graph}
    behind = {(a.op, b.op) for graph in by_name.values() for a, b in chains(graph)}
    # sqrt accepts no negative values.
    assert behind == {(a, b) for a in few for b in few if b != "sqrt"}
    # Operators with parameters occur in a second form, too.
    assert Counter(b.op for _, b in chains(by_name["nn.relu"])) == {"nn.relu": 1, "clip": 2, "subtract": 2}
    for (a, b), at in ((("clip", "nn.relu"), 0), (("nn.relu", "clip"), 1)):
        pairs = [pair for pair in chains(by_name[a]) if pair[1].op == b]
        assert len({str(sorted(pair[at].attrs.items())) for pair in pairs}) == 2


def test_an_operator_follows_itself_in_other_forms() -> None:
    graph = followed("transpose", "float32", ("nn.relu", "transpose"), "relay")
    assert graph is not None
    twice = [(a, b) for a, b in chains(graph) if a.op == b.op]
    assert len({(str(a.attrs), str(b.attrs)) for a, b in twice}) >= 4
    # A cubic shape is among them: all axes have the same extent.
    assert any({*a.types[0].shape} == {3} for a, _ in twice)


def test_many_following_operators_are_divided_among_the_graphs() -> None:
    every = [n for n, op in OPERATORS.items() if "relay" in op.irs() and "float32" in dtypes(op, "relay")]
    graphs = [followed(name, "float32", every, "relay") for name in every]
    pairs = [{b.op for _, b in chains(graph)} for graph in graphs if graph]
    # Each operator is followed by ten others and by itself.
    assert max(map(len, pairs)) == 11
    # The followers differ between operators.
    assert len(set.union(*pairs)) > 60


@pytest.mark.parametrize("ir", ["relay", "relax"])
@pytest.mark.parametrize("name", OPERATORS)
def test_forms_of_an_operator_read_one_value(name: str, ir: str) -> None:
    known = dtypes(OPERATORS[name], ir) if ir in OPERATORS[name].irs() else ()
    graph = forms(name, known[0], OTHERS, ir) if known else None
    if graph is None:
        pytest.skip(f"it has one form in {ir}")
    same = [n for n in graph.nodes if n.op == name]
    assert len(same) > 1 and len(graph.nodes) - len(same) <= 1
    front = [n for n in graph.nodes if n.op != name]
    lead = front[0].outputs[0] if front else graph.inputs[0].name
    assert all(lead in n.inputs for n in same)
    assert len({str(sorted(n.attrs.items())) for n in same}) == len(same)
    for node in same:
        types = OPERATORS[name].infer([graph.type_of(i) for i in node.inputs], node.attrs)
        assert types == node.types


def test_each_parameter_distinguishes_two_forms() -> None:
    graph = forms("nn.max_pool2d", "float32", OTHERS, "relay")
    assert graph is not None and graph.nodes[0].op == "nn.relu"
    first, *others = (n.attrs for n in graph.nodes[1:])
    changed = [sorted(k for k in first if attrs[k] != first[k]) for attrs in others]
    assert {tuple(c) for c in changed} >= {("pool_size",), ("strides",), ("padding",), ("dilation",)}
    # Weights of one type are shared.
    dense = forms("nn.conv2d", "float32", OTHERS, "relay")
    assert dense is not None
    assert max(Counter(n.inputs[1] for n in dense.nodes if n.op == "nn.conv2d").values()) > 1
