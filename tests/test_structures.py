"""The structures that are made by rule: which there are, and at which level."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pytest_byoc.config.plan import structures, thorough
from pytest_byoc.core.graph import Graph
from pytest_byoc.generation import data
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.structures import EXHAUSTIVE, NUMERIC, STRUCTURES, Unavailable, Vocabulary
from pytest_byoc.generation.structures.vocabulary import structure
from pytest_byoc.operators import OPERATORS
from pytest_byoc.oracle import evaluation

EVERYTHING = Vocabulary(frozenset(OPERATORS))
ACTIVATIONS = {"nn.relu", "clip", "nn.leaky_relu", "tanh", "sigmoid"}
BEHIND = {"add", "nn.bias_add", "multiply", "subtract", "divide"} | ACTIVATIONS


def chains(graph: Graph) -> list[list[str]]:
    """What stands behind each other, from the anchor to each output, anything else being an input."""
    made = {output: node for node in graph.nodes for output in node.outputs}
    found = []
    for output in graph.outputs:
        chain: list[str] = []
        while output in made:
            chain.insert(0, made[output].op)
            output = next((i for i in made[output].inputs if i in made), made[output].inputs[0])
        found.append(chain)
    return found


@pytest.mark.parametrize("anchor", ["dense", "conv"])
def test_each_pair_behind_an_anchor_is_made(anchor: str) -> None:
    names = [name for name in STRUCTURES if name.startswith(f"{anchor}_") and name.endswith("_each")]
    biased = [name for name in names if "_biased_" in name]
    names = [name for name in names if name not in biased]
    found = [c for name in names for c in chains(STRUCTURES[name](Builder(seed=1), EVERYTHING))]
    assert {chain[0] for chain in found} == {"nn.conv2d" if anchor == "conv" else "nn.dense"}
    # Four additions and two products of each kind; behind activations the product with a negative one too.
    pairs = Counter(tuple(chain[1:]) for chain in found if len(chain) == 3)
    assert pairs["add", "nn.relu"] == 4 and pairs["multiply", "clip"] == 2 and pairs["nn.relu", "clip"] == 1
    assert {p for p in pairs if p[0] not in ACTIVATIONS} == {
        (one, other) for one in BEHIND - ACTIVATIONS - {"divide"} for other in BEHIND - {"divide"}
    }
    assert pairs["nn.relu", "multiply"] == 2
    deep = [c for name in biased for c in chains(STRUCTURES[name](Builder(seed=1), EVERYTHING))]
    every = {(one, other): 1 for one in ACTIVATIONS for other in ACTIVATIONS}
    assert Counter(tuple(chain[2:]) for chain in deep) == every
    assert {chain[1] for chain in found if len(chain) == 2} == BEHIND


def test_a_value_in_front_of_each_is_returned_too() -> None:
    graph = STRUCTURES["max_pool_returned_too"](Builder(seed=1), EVERYTHING)
    found = chains(graph)
    assert {tuple(chain[1:]) for chain in found} == {(), *((op,) for op in BEHIND)}
    assert found.count(["nn.max_pool2d"]) == len(found) / 2


def test_a_negative_factor_is_negative() -> None:
    graph = STRUCTURES["dense_relu_each"](Builder(seed=1), EVERYTHING)
    factors = [c for n in graph.nodes if n.op == "multiply" for c in graph.constants if c.name in n.inputs]
    assert sorted(c.high < 0 for c in factors) == [False, True]


def test_pruned_weights_are_zero_where_they_are_pruned() -> None:
    graph = STRUCTURES["pruned_weights"](Builder(seed=1), EVERYTHING)
    weights = [data.array(c).reshape(5, 4) for c in graph.constants if c.data is not None]
    assert len(weights) == 6
    for all_, rows, columns in (weights[:3], weights[3:]):
        assert not all_.any()
        assert rows.any(axis=1).tolist() == [False, True, True, False, True]
        assert columns.any(axis=0).tolist() == [False, True, True, False] and columns[:, 1:3].all()


def test_no_structure_takes_the_place_of_another() -> None:
    with pytest.raises(ValueError, match="two structures called diamond"):

        @structure
        def diamond(b: Builder, v: Vocabulary) -> Graph:
            return b.graph()

    assert STRUCTURES["diamond"](Builder(seed=1), EVERYTHING).nodes


def test_neutral_constants_change_no_value_but_all_shapes() -> None:
    graph = STRUCTURES["neutral_constants"](Builder(seed=1), EVERYTHING)
    arrays = {**data.inputs(graph, 0), **data.constants(graph)}
    grown = 0
    for node, found in zip(graph.nodes, evaluation.evaluate(graph, arrays)):
        x, y = arrays[node.inputs[0]], found.value
        grown += x.shape != y.shape
        if node.op not in ("maximum", "minimum"):
            assert (np.broadcast_to(x, y.shape) == y).all()
    assert grown == len(graph.nodes) * 2 / 3


def test_only_what_the_target_takes_is_tried() -> None:
    few = Vocabulary(frozenset(("nn.dense", "add", "nn.relu")))
    graph = STRUCTURES["dense_bias_each"](Builder(seed=1), few)
    assert set(graph.operators) == {"nn.dense", "add", "nn.relu"}
    with pytest.raises(Unavailable, match=r"does not take nn\.conv2d"):
        STRUCTURES["conv_bias_each"](Builder(seed=1), few)
    with pytest.raises(Unavailable, match=r"takes none of add, .*tanh"):
        STRUCTURES["dense_each"](Builder(seed=1), Vocabulary(frozenset(("nn.dense",))))


def test_smoke_has_no_time_for_all_there_is_of_a_kind() -> None:
    assert EXHAUSTIVE and EXHAUSTIVE <= NUMERIC
    assert set(structures("standard")) == set(STRUCTURES) == set(structures("full"))
    assert set(structures("smoke")) == set(STRUCTURES) - EXHAUSTIVE
    assert not EXHAUSTIVE & set(thorough("standard"))
    # They are examined behind the others.
    assert set(list(STRUCTURES)[-len(EXHAUSTIVE):]) == EXHAUSTIVE


@pytest.mark.parametrize("name", [n for n in STRUCTURES if n.startswith("padded_")])
def test_what_a_window_may_take_over_of_a_padding_differs(name: str) -> None:
    """Each way of padding stands in front of a window of its own, one with another reader."""
    graph = STRUCTURES[name](Builder(seed=1), EVERYTHING)
    pads = [n for n in graph.nodes if n.op == "nn.pad"]
    windows = [n for n in graph.nodes if n.op != "nn.pad"]
    assert [n.inputs[0] for n in windows] == [n.outputs[0] for n in pads]
    values = {(n.attrs["pad_mode"], n.attrs["pad_value"]) for n in pads}
    assert values >= {("constant", 0.0), ("constant", 1.5), ("edge", 0.0)}
    # Of four dimensions; somewhere each of them is padded.
    assert all(any(sum(n.attrs["pad_width"][axis]) for n in pads) for axis in range(4))
    assert {n.outputs[0] for n in pads} & set(graph.outputs)
    assert len({n.attrs["padding"] for n in windows}) > 1
