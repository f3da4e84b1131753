"""The structures that are made by rule: which there are, and at which level."""

from __future__ import annotations

from collections import Counter

import pytest

from pytest_byoc.checks.selection import structures, thorough
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.structures import EXHAUSTIVE, NUMERIC, STRUCTURES, Unavailable, Vocabulary
from pytest_byoc.graph import Graph
from pytest_byoc.operators import OPERATORS

EVERYTHING = Vocabulary(frozenset(OPERATORS))
BEHIND = {"add", "nn.bias_add", "multiply", "subtract", "nn.relu", "clip", "nn.leaky_relu", "tanh", "sigmoid"}


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
    found = [c for name in names for c in chains(STRUCTURES[name](Builder(seed=1), EVERYTHING))]
    assert {chain[0] for chain in found} == {"nn.conv2d" if anchor == "conv" else "nn.dense"}
    # Four additions and two products of each kind.
    pairs = Counter(tuple(chain[1:]) for chain in found if len(chain) == 3)
    assert pairs["add", "nn.relu"] == 4 and pairs["multiply", "clip"] == 2 and pairs["nn.relu", "clip"] == 1
    activations = {"nn.relu", "clip", "nn.leaky_relu", "tanh", "sigmoid"}
    assert {p for p in pairs if p[0] not in activations} == {
        (one, other) for one in BEHIND - activations for other in BEHIND
    }
    assert {chain[1] for chain in found if len(chain) == 2} == BEHIND


def test_a_value_in_front_of_each_is_returned_too() -> None:
    graph = STRUCTURES["max_pool_returned_too"](Builder(seed=1), EVERYTHING)
    found = chains(graph)
    assert {tuple(chain[1:]) for chain in found} == {(), *((op,) for op in BEHIND)}
    assert found.count(["nn.max_pool2d"]) == len(found) / 2


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
