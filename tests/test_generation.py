"""Tests of systematic cases and random graphs, without TVM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, pairwise, product
from typing import Any

import pytest

from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.generation import data
from pytest_byoc.generation.batch_sizes import at_batch, batch_size
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.pairs import pairs, threes
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.generation.single import OneNodeGraph, class_names
from pytest_byoc.generation.systematic import cases, default_case
from pytest_byoc.operators import OPERATORS

IRS = ("relay", "relax", None)


def generated(count: int, **options: Any) -> list[Graph]:
    """Returns the first graphs of a strategy, the same ones in every run."""
    return some(count, 0, **options)


@pytest.mark.parametrize("ir", IRS)
def test_ids_of_cases_are_unique(ir: str | None) -> None:
    counted = Counter(c.id for c in cases(list(OPERATORS), ir))
    assert [i for i, n in counted.items() if n > 1] == []


@pytest.mark.parametrize("ir", IRS)
def test_every_operator_has_deterministic_cases(ir: str | None) -> None:
    every = cases(list(OPERATORS), ir)
    assert {c.operator for c in every} == {n for n, op in OPERATORS.items() if ir is None or ir in op.irs()}
    assert every == cases(list(OPERATORS), ir)


@pytest.mark.parametrize("focus", ["nn.conv2d", "cumsum"])
@pytest.mark.parametrize("names", [(), ("nn.relu", "tanh", "exp")])
def test_a_graph_holds_the_focus_with_any_fragments(focus: str, names: Sequence[str]) -> None:
    fragments = [default_case(n, "float32").graph for n in names]
    graphs = generated(60, focus=focus, fragments=fragments, max_nodes=3)
    assert all(focus in g.operators for g in graphs)


def test_a_graph_holds_a_fragment() -> None:
    fragment = default_case("nn.conv2d", "float32").graph
    graphs = generated(60, fragments=[fragment], max_nodes=4)
    assert all("nn.conv2d" in g.operators for g in graphs)


def constant_values(graph: Graph) -> set[str]:
    """Returns the values that TVM folds to constants; TVM leaves an output buffer of such a value
    unwritten."""
    known = {c.name for c in graph.constants}
    for node in graph.nodes:
        silent = OPERATORS[node.op].type_only
        read = [i for at, i in enumerate(node.inputs) if at not in silent]
        if known.issuperset(read):
            known.update(node.outputs)
    return known


def test_random_graphs_differ_and_have_no_constant_outputs() -> None:
    graphs = generated(400, max_nodes=6)
    assert len(set(graphs)) > 390
    for g in graphs:
        # TVM does not fold zeros_like and ones_like.
        constant = constant_values(g).intersection(g.outputs)
        alone = {o for n in g.nodes if n.op in ("zeros_like", "ones_like") for o in n.outputs}
        assert constant <= alone


def test_random_graphs_have_every_feature() -> None:
    """Real faults needed these features (docs/explanation/generation.md): each is in some of 400 graphs."""
    features: Counter[str] = Counter()
    for g in generated(400, max_nodes=8):
        sources = {s.name: s for s in g.sources()}
        uses = Counter(i for n in g.nodes for i in n.inputs)
        constants = {c.name for c in g.constants}
        weighted = [n for n in g.nodes if constants.intersection(n.inputs)]
        kinds = Counter((n.op, str(n.attrs), tuple(map(str, n.types))) for n in weighted)
        features["a value used twice"] += any(n > 1 for v, n in uses.items() if v not in sources)
        features["an operand twice"] += any(len(set(n.inputs)) < len(n.inputs) for n in g.nodes)
        features["returned twice"] += len(set(g.outputs)) < len(g.outputs)
        features["returned and consumed"] += any(uses[o] for o in g.outputs)
        features["an input returned"] += any(o in sources for o in g.outputs)
        features["dead code"] += len(g.needed().nodes) < len(g.nodes)
        features["a constant first"] += any(n.inputs[0] in constant_values(g) for n in g.nodes)
        features["a constant used twice"] += any(uses[c.name] > 1 for c in g.constants)
        features["equal but for constants"] += any(n > 1 for n in kinds.values())
        features["tuples"] += any(len(n.outputs) > 1 for n in g.nodes)
        features["four outputs"] += len(g.outputs) == 4
        features["rank 0"] += any(t.rank == 0 for n in g.nodes for t in n.types)
    assert {k: n for k, n in features.items() if n < 4} == {}


def test_some_random_graphs_alternate_target_and_host() -> None:
    preferred = ("nn.relu", "tanh", "add", "sigmoid")
    graphs = generated(200, operators=[*preferred, "floor", "ceil", "exp"], prefer=preferred, min_nodes=6)
    placements = [[n.op in preferred for n in g.nodes] for g in graphs]
    assert sum(all(a != b for a, b in pairwise(t)) for t in placements) > 10


def test_a_graph_at_a_larger_batch() -> None:
    graph = default_case("nn.conv2d", "float32").graph
    batch = batch_size(graph)
    assert batch is not None
    larger = at_batch(graph, 2 * batch + 1)
    assert larger is not None
    assert larger.type_of(larger.outputs[0]).shape == (
        2 * batch + 1,
        *graph.type_of(graph.outputs[0]).shape[1:],
    )
    assert larger.constants == graph.constants
    with pytest.raises(ValueError, match="not larger"):
        at_batch(graph, batch)


def test_random_graphs_at_a_larger_batch_are_valid() -> None:
    """Types of nodes agree with the type rules; most graphs have a larger batch."""
    graphs = generated(200, max_nodes=4)
    larger = [at_batch(g, n + 3) for g in graphs if (n := batch_size(g))]
    assert sum(g is not None for g in larger) > 100
    for g in larger:
        for node in g.nodes if g else ():
            assert g is not None
            assert OPERATORS[node.op].infer([g.type_of(i) for i in node.inputs], node.attrs) == node.types


@pytest.mark.parametrize(("operator", "times"), [("nn.avg_pool2d", 1.4), ("nn.conv2d", 1.4)])
def test_any_three_parameters_of_a_window_are_combined(operator: str, times: float) -> None:
    """All of them determine which elements of a window lie in the padding."""
    op = OPERATORS[operator]
    two = [made for _, made in pairs(op, "float32")]
    three = [made for _, made in threes(op, "float32", two)]
    assert 20 < len(three) <= 64

    def combined(made: Sequence[OneNodeGraph]) -> set[frozenset[tuple[str, str]]]:
        return {frozenset(triple) for one in made for triple in combinations(one.classes, 3)}

    assert len(combined([*two, *three])) > times * len(combined(two))
    window = [i for i, p in enumerate(op.parameters) if p.name in ("strides", "padding", "dilation")]
    labelled = ([(op.parameters[i].name, c) for c in class_names(op, i, "float32")] for i in window)
    assert {frozenset(wanted) for wanted in product(*labelled)} <= combined([*two, *three])
    assert not list(threes(OPERATORS["add"], "float32", []))


def test_sets_between_two_sets_of_inputs_change_inputs_in_order() -> None:
    for number, changed in ((1, []), (2, [1]), (3, [1, 2]), (9, [3, 5, 7])):
        b = Builder(seed=1)
        names = [b.input(TensorType((2, 3), "float32")) for _ in range(number)]
        graph = b.graph(*(b.apply("nn.relu", name, {})[0] for name in names))
        first, second, *between = data.input_sets(graph, between=True)
        assert [sum(s[n] is second[n] for n in names) for s in between] == changed
        for mixed in between:
            replaced = [mixed[n] is second[n] for n in names]
            assert replaced == sorted(replaced, reverse=True) and list(mixed) == names
            assert all(mixed[n] is (second if t else first)[n] for n, t in zip(names, replaced))
        assert len(data.input_sets(graph)) == 2
