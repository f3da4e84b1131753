"""Systematic cases and random graphs, without TVM."""

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
from pytest_byoc.generation.single import Made, class_names
from pytest_byoc.generation.systematic import cases, default_case
from pytest_byoc.operators import OPERATORS

IRS = ("relay", "relax", None)


def generated(count: int, **options: Any) -> list[Graph]:
    """The first graphs of a strategy, the same ones every time."""
    return some(count, 0, **options)


@pytest.mark.parametrize("ir", IRS)
def test_a_case_has_an_id_of_its_own(ir: str | None) -> None:
    counted = Counter(c.id for c in cases(list(OPERATORS), ir))
    assert [i for i, n in counted.items() if n > 1] == []


@pytest.mark.parametrize("ir", IRS)
def test_every_operator_has_cases_and_they_are_the_same_every_time(ir: str | None) -> None:
    found = cases(list(OPERATORS), ir)
    assert {c.operator for c in found} == {n for n, op in OPERATORS.items() if ir is None or ir in op.irs()}
    assert found == cases(list(OPERATORS), ir)


@pytest.mark.parametrize("focus", ["nn.conv2d", "cumsum"])
@pytest.mark.parametrize("names", [(), ("nn.relu", "tanh", "exp")])
def test_a_graph_holds_the_focus_whatever_the_fragments(focus: str, names: Sequence[str]) -> None:
    fragments = [default_case(n, "float32").graph for n in names]
    found = generated(60, focus=focus, fragments=fragments, max_nodes=3)
    assert all(focus in g.operators for g in found)


def test_a_graph_holds_a_fragment() -> None:
    fragment = default_case("nn.conv2d", "float32").graph
    found = generated(60, fragments=[fragment], max_nodes=4)
    assert all("nn.conv2d" in g.operators for g in found)


def constant_values(graph: Graph) -> set[str]:
    """Values that TVM folds to constants: of them an output buffer is left unwritten."""
    known = {c.name for c in graph.constants}
    for node in graph.nodes:
        silent = OPERATORS[node.op].type_only
        told = [i for at, i in enumerate(node.inputs) if at not in silent]
        if known.issuperset(told):
            known.update(node.outputs)
    return known


def test_random_graphs_differ_and_none_is_a_constant() -> None:
    found = generated(400, max_nodes=6)
    assert len(set(found)) > 390
    for g in found:
        # zeros_like and its kin alone TVM does not fold.
        made = constant_values(g).intersection(g.outputs)
        alone = {o for n in g.nodes if n.op in ("zeros_like", "ones_like") for o in n.outputs}
        assert made <= alone


def test_features_of_random_graphs_are_met() -> None:
    """What real faults have needed (docs/explanation/generation.md): each in some graphs of some hundred."""
    met: Counter[str] = Counter()
    for g in generated(400, max_nodes=8):
        sources = {s.name: s for s in g.sources()}
        uses = Counter(i for n in g.nodes for i in n.inputs)
        constants = {c.name for c in g.constants}
        weighted = [n for n in g.nodes if constants.intersection(n.inputs)]
        kinds = Counter((n.op, str(n.attrs), tuple(map(str, n.types))) for n in weighted)
        met["a value used twice"] += any(n > 1 for v, n in uses.items() if v not in sources)
        met["an operand twice"] += any(len(set(n.inputs)) < len(n.inputs) for n in g.nodes)
        met["returned twice"] += len(set(g.outputs)) < len(g.outputs)
        met["returned and consumed"] += any(uses[o] for o in g.outputs)
        met["an input returned"] += any(o in sources for o in g.outputs)
        met["dead code"] += len(g.needed().nodes) < len(g.nodes)
        met["a constant first"] += any(n.inputs[0] in constant_values(g) for n in g.nodes)
        met["a constant used twice"] += any(uses[c.name] > 1 for c in g.constants)
        met["equal but for constants"] += any(n > 1 for n in kinds.values())
        met["tuples"] += any(len(n.outputs) > 1 for n in g.nodes)
        met["four outputs"] += len(g.outputs) == 4
        met["rank 0"] += any(t.rank == 0 for n in g.nodes for t in n.types)
    assert {k: n for k, n in met.items() if n < 4} == {}


def test_the_target_takes_turns_with_the_host() -> None:
    taken = ("nn.relu", "tanh", "add", "sigmoid")
    found = generated(200, operators=[*taken, "floor", "ceil", "exp"], prefer=taken, min_nodes=6)
    turns = [[n.op in taken for n in g.nodes] for g in found]
    assert sum(all(a != b for a, b in pairwise(t)) for t in turns) > 10


def test_larger_batches() -> None:
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


def test_larger_batches_of_random_graphs_are_legal() -> None:
    """Nodes say what the type rules say; most graphs have a larger batch."""
    found = generated(200, max_nodes=4)
    larger = [at_batch(g, n + 3) for g in found if (n := batch_size(g))]
    assert sum(g is not None for g in larger) > 100
    for g in larger:
        for node in g.nodes if g else ():
            assert g is not None
            assert OPERATORS[node.op].infer([g.type_of(i) for i in node.inputs], node.attrs) == node.types


@pytest.mark.parametrize(("operator", "times"), [("nn.avg_pool2d", 1.4), ("nn.conv2d", 1.4)])
def test_any_three_parameters_of_a_window_meet(operator: str, times: float) -> None:
    """Which of its elements lie in the padding depends on all."""
    op = OPERATORS[operator]
    two = [made for _, made in pairs(op, "float32")]
    three = [made for _, made in threes(op, "float32", two)]
    assert 20 < len(three) <= 64

    def met(made: Sequence[Made]) -> set[frozenset[tuple[str, str]]]:
        return {frozenset(found) for one in made for found in combinations(one.classes, 3)}

    assert len(met([*two, *three])) > times * len(met(two))
    window = [i for i, p in enumerate(op.parameters) if p.name in ("strides", "padding", "dilation")]
    labelled = ([(op.parameters[i].name, c) for c in class_names(op, i, "float32")] for i in window)
    assert {frozenset(wanted) for wanted in product(*labelled)} <= met([*two, *three])
    assert not list(threes(OPERATORS["add"], "float32", []))


def test_between_two_sets_of_inputs_one_after_another_is_the_other_one() -> None:
    for number, changed in ((1, []), (2, [1]), (3, [1, 2]), (9, [3, 5, 7])):
        b = Builder(seed=1)
        names = [b.input(TensorType((2, 3), "float32")) for _ in range(number)]
        graph = b.graph(*(b.apply("nn.relu", name, {})[0] for name in names))
        first, second, *between = data.input_sets(graph, between=True)
        assert [sum(s[n] is second[n] for n in names) for s in between] == changed
        for found in between:
            taken = [found[n] is second[n] for n in names]
            assert taken == sorted(taken, reverse=True) and list(found) == names
            assert all(found[n] is (second if t else first)[n] for n, t in zip(names, taken))
        assert len(data.input_sets(graph)) == 2
