"""Graphs that hold an operator between others."""

from __future__ import annotations

import pytest

from pytest_byoc.generation.neighbours import between
from pytest_byoc.operators import OPERATORS
from pytest_byoc.operators.measured import dtypes

CLAIMED = ("nn.relu", "add", "nn.conv2d", "sigmoid", "sqrt")


@pytest.mark.parametrize("ir", ["relay", "relax"])
@pytest.mark.parametrize("name", OPERATORS)
def test_it_is_in_every_graph_once_with_a_neighbour(name: str, ir: str) -> None:
    if ir not in OPERATORS[name].irs() or not dtypes(OPERATORS[name], ir):
        pytest.skip(f"nothing of it in {ir}")
    found = between(name, dtypes(OPERATORS[name], ir)[0], CLAIMED, ir)
    for graph in found:
        assert [n.op for n in graph.nodes].count(name) == 1 and 2 <= len(graph.nodes) <= 3
        assert set(graph.operators) <= {name, *CLAIMED}
        for node in graph.nodes:
            types = OPERATORS[node.op].infer([graph.type_of(i) for i in node.inputs], node.attrs)
            assert types == node.types


def test_both_sides_are_taken() -> None:
    found = between("nn.softmax", "float32", CLAIMED, "relay")
    chains = {tuple(n.op for n in g.nodes) for g in found}
    assert ("nn.relu", "nn.softmax", "add") in chains
    # Values that another operator made need not keep to a domain.
    assert ("sqrt", "nn.softmax", "nn.relu") in chains
    assert not any("sqrt" in chain[1:] for chain in chains)
    alone = between("sqrt", "float32", CLAIMED, "relay")
    assert alone and all(g.nodes[0].op == "sqrt" for g in alone)
    assert len(between("nn.conv2d", "float32", CLAIMED, "relay")) > 3
