"""Tests of graphs generated from a target's patterns: ways, instances, near misses, the search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from pytest_byoc.core.graph import Graph, Node, TensorType
from pytest_byoc.examination.partitions import Partitions
from pytest_byoc.generation import data
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.patterns import (
    Alone,
    NoInstance,
    Pattern,
    instance,
    kind,
    made_of,
    near_misses,
    not_among,
    parse,
    parse_table,
    search,
    spread,
    twice,
    ways,
)
from pytest_byoc.generation.patterns.draws import Draws
from pytest_byoc.generation.patterns.instance import varied
from pytest_byoc.generation.systematic import default_case
from pytest_byoc.operators import OPERATORS
from pytest_byoc.oracle.evaluation import evaluate

from .conftest import partitions_of

WILD = {"is": "wildcard"}
CONSTANT = {"is": "constant"}


def call(op: str, *args: int) -> dict[str, object]:
    return {"is": "call", "ops": [op], "args": list(args), "more": False}


ITEM = {"is": "item", "of": [1], "index": 0}
ODD = {"is": "with", "of": [2], "attrs": {"units": 77}}

#: conv2d, then optionally bias_add, then relu or clip.
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


def test_ways_cover_every_branch() -> None:
    found_operators = {tuple(operators(instance(CONV, way, "relay", 0).graph)) for way in ways(CONV)}
    prefixes = {names[:-1] for names in found_operators}
    assert prefixes == {("nn.conv2d", "nn.bias_add"), ("nn.conv2d",)}
    assert {names[-1] for names in found_operators} == {"nn.relu", "clip"}


def test_constants_of_a_pattern_are_constants() -> None:
    for seed in range(20):
        graph = instance(CONV, {}, "relay", seed).graph
        assert len(graph.constants) == 2 and len(graph.inputs) == 1
        assert graph == instance(CONV, {}, "relay", seed).graph, "the same seed makes the same graph"


def test_a_leaf_used_twice_is_one_value() -> None:
    for seed in range(20):
        graph = instance(SWISH, {}, "relax", seed).graph
        # An operator outside the pattern may compute the leaf.
        assert operators(graph) in (["sigmoid", "multiply"], ["abs", "sigmoid", "multiply"])
        sigmoid, multiply = graph.nodes[-2:]
        assert multiply.inputs == (sigmoid.inputs[0], sigmoid.outputs[0])


def test_instances_have_the_attributes_and_dtypes_of_the_pattern() -> None:
    demand = {"is": "with", "of": [2], "attrs": {"data_layout": "NHWC"}}
    typed = {"is": "with", "of": [3], "dtype": "float16"}
    pattern = parse("nhwc", [WILD, WILD, call("nn.conv2d", 0, 1), demand, typed])
    for seed in range(10):
        node = instance(pattern, {}, "relay", seed).graph.nodes[-1]
        assert node.attrs["data_layout"] == "NHWC" and node.types[0].dtype == "float16"


def test_instances_have_the_shapes_of_the_pattern() -> None:
    scale = {"is": "with", "of": [1], "shape": [1]}
    pattern = parse("scaled", [WILD, WILD, scale, call("multiply", 0, 2)])
    for seed in range(10):
        graph = instance(pattern, {}, "relax", seed).graph
        assert graph.type_of(graph.nodes[-1].inputs[1]).shape == (1,)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([WILD], "no operator returns"),
        ([WILD, call("nonsense", 0)], "nonsense has no record"),
        ([WILD, {"is": "call", "ops": None, "args": [0], "more": False}], "for example a PrimFunc"),
        ([WILD, call("add", 0)], "add has 2 operands, the pattern gives it 1"),
        ([WILD, call("call_tir", 0)], "calls a function by call_tir"),
        ([WILD, call("nn.relu", 0), ITEM], "the result of nn.relu, which is not a tuple"),
        ([WILD, call("split", 0), call("nn.relu", 1)], "split returns a tuple, of which"),
        ([WILD, CONSTANT, call("qnn.dense", 0, 1, 1, 1, 1, 1)], "operands 2, 3, 4, 5, 6 are the same object"),
        ([WILD, CONSTANT, call("nn.dense", 0, 1), ODD], "of nn.dense does not have what .*: no units=77"),
    ],
)
def test_a_pattern_without_an_instance_has_a_reason(nodes: Sequence[dict[str, object]], reason: str) -> None:
    with pytest.raises(NoInstance, match=reason):
        instance(parse("p", nodes), {}, "relay", 0)


def test_patterns_of_selected_operators() -> None:
    assert made_of(CONV, {"nn.conv2d", "nn.bias_add", "clip"}, "relay")
    assert not made_of(CONV, {"nn.conv2d", "nn.bias_add"}, "relay")
    assert not_among(CONV, {"nn.conv2d", "nn.bias_add"}, "relay") == ["nn.relu or clip or nn.relu6"]
    # One of the alternatives is enough.
    either = parse("p", [WILD, call("nn.relu", 0), call("clip", 0), {"is": "or", "of": [1, 2]}])
    assert made_of(either, {"clip"}, "relay") and not made_of(either, {"tanh"}, "relay")
    assert made_of(SWISH, set(OPERATORS), "relax") and not made_of(SWISH, {"sigmoid"}, "relax")


def test_near_misses_are_valid_and_different() -> None:
    graph = instance(CONV, {}, "relay", 0).graph
    by_label = dict(near_misses(graph, "relay"))
    labels = list(by_label)
    assert len(set(by_label.values())) == len(by_label) > 15 and graph not in by_label.values()
    for start in ("nn.conv2d.strides", "nn.conv2d.groups", "float16", "input_c0", "returned_nn.conv2d"):
        assert any(label.startswith(start) for label in labels), start
    for near in by_label.values():
        for node in near.nodes:
            types = OPERATORS[node.op].infer([near.type_of(i) for i in node.inputs], node.attrs)
            assert types == node.types


def test_every_permutation_before_a_value_of_the_same_type() -> None:
    """Keys of attention: the last two axes swapped, and all others that give the same shape."""
    b = Builder(seed=1)
    key = b.simple("transpose", b.input(TensorType((2, 5, 4), "float32")), axes=(0, 2, 1))
    query = b.input(TensorType((2, 3, 4), "float32"))
    graph = b.graph(b.simple("nn.batch_matmul", query, key, transpose_b=False))
    misses = {label: g for label, g in near_misses(graph, "relax") if kind(label) == "permutation"}
    shapes = {g.nodes[0].attrs["axes"]: g.inputs[0].type.shape for g in misses.values()}
    assert shapes == {
        (0, 1, 2): (2, 4, 5), (1, 0, 2): (4, 2, 5), (1, 2, 0): (5, 2, 4), (2, 0, 1): (4, 5, 2),
        (2, 1, 0): (5, 4, 2),
    }
    assert all(g.nodes[0].types == graph.nodes[0].types for g in misses.values())
    # Behind another operator only axes of one length can change places.
    b = Builder(seed=1)
    y = b.simple("nn.relu", b.input(TensorType((3, 3, 4), "float32")))
    graph = b.graph(b.simple("transpose", y, axes=(0, 1, 2)))
    misses = {label: g for label, g in near_misses(graph, "relax") if kind(label) == "permutation"}
    assert [g.nodes[1].attrs["axes"] for g in misses.values()] == [(1, 0, 2)]


def test_a_scale_is_broadcast_in_every_way_behind_a_norm() -> None:
    b = Builder(seed=1)
    y = b.simple("tanh", b.input(TensorType((2, 3, 4), "float32")))
    y = b.node("multiply", (y, b.constant(TensorType((4,), "float32"))), {})[0]
    graph = b.graph(b.node("add", (y, b.constant(TensorType((4,), "float32"))), {})[0])
    misses = {label: g for label, g in near_misses(graph, "relax") if kind(label) == "broadcast"}
    gammas = {g.constants[0].type.shape for g in misses.values()}
    assert {(), (1, 1, 1), (3, 1), (2, 1, 1), (3, 4), (2, 3, 4), (2, 2, 3, 4)} <= gammas
    assert {g.outputs and g.type_of(g.outputs[0]).shape for g in misses.values()} == {(2, 3, 4), (2, 2, 3, 4)}


@pytest.mark.parametrize("ir", ["relay", "relax"])
@pytest.mark.parametrize("op", ["gather_nd", "take"])
def test_near_misses_have_indices_within_the_tensor(op: str, ir: str) -> None:
    """A target may refuse all other graphs, and a graph with invalid indices cannot be judged."""
    graph = default_case(op, "float32", ir).graph
    by_label = dict(near_misses(graph, ir))
    assert any(label.startswith(f"{op}.") for label in by_label)
    for label, near in by_label.items():
        values = {**data.inputs(near, 0), **data.constants(near)}
        (expected,) = evaluate(near, values)
        assert not expected.ambiguous.any(), label


def test_near_misses_of_every_kind() -> None:
    """Kinds are attribute, dtype, constness (both ways), rank, broadcast, consumer and order."""
    nodes = [WILD, WILD, call("add", 0, 1), call("nn.softmax", 2)]
    graph = instance(parse("p", nodes), {}, "relay", 0).graph
    misses = dict(near_misses(graph, "relay"))
    kinds = {kind(label) for label in misses}
    assert kinds == {"attribute", "dtype", "constness", "rank", "broadcast", "consumer", "order"}
    spread_out = [near for label, near in misses.items() if kind(label) == "broadcast"]
    shape = graph.nodes[0].types[0].shape
    # A scalar, ones, each axis, all but the first, and one axis more.
    assert shape == (2, 3, 5)
    assert [near.inputs[1].type.shape for near in spread_out] == [
        (), (1, 1, 1), (2, 1, 1), (3, 1), (5,), (3, 5), (2, *shape)
    ]
    assert all([n.types for n in near.nodes] == [n.types for n in graph.nodes] for near in spread_out[:-1])
    ranks = {near.inputs[0].type.rank for label, near in misses.items() if kind(label) == "rank"}
    assert ranks == {graph.inputs[0].type.rank - 1, graph.inputs[0].type.rank + 1}
    moved = [near for label, near in misses.items() if kind(label) == "constness"]
    assert moved and all(len(near.constants) == 1 for near in moved)
    (consumed,) = (near for label, near in misses.items() if kind(label) == "consumer")
    assert set(consumed.outputs) == {graph.nodes[0].outputs[0], graph.nodes[1].outputs[0]}
    (order,) = (near for label, near in misses.items() if kind(label) == "order")
    assert order.nodes[0].inputs == graph.nodes[0].inputs[::-1]
    with_constants = dict(near_misses(instance(CONV, {}, "relay", 0).graph, "relay"))
    assert "constness" in {kind(label) for label in with_constants if label.startswith("input")}


def test_spread_selects_every_kind() -> None:
    candidates = [("a", i) for i in range(20)] + [("b", 20), ("c", 21), ("c", 22)]
    selected = spread(candidates, 6)
    assert len(selected) == 6 and {20, 21, 22} <= set(selected) and len(set(selected)) == 6
    assert sorted(spread(candidates, 50)) == list(range(23)) and spread(candidates, 0) == []


def test_patterns_of_one_name_get_distinct_labels() -> None:
    entries = enumerate(("a", "b", "a"))
    nodes = [WILD, call("nn.relu", 0)]
    described = [{"name": n, "nodes": nodes, "table": "t", "position": k} for k, n in entries]
    patterns = parse_table(described)
    assert [p.label for p in patterns] == ["a", "b", "a#2"] and [p.position for p in patterns] == [0, 1, 2]
    assert {p.table for p in patterns} == {"t"} and patterns[2].name == "a"


# --- the search ----------------------------------------------------------------------------------

Answers = Callable[[Graph], Alone]


def answering(answer: Answers) -> Callable[[Pattern, Sequence[Graph]], list[Alone | None]]:
    return lambda pattern, graphs: [answer(g) for g in graphs]


def composites_of(*names: str) -> Callable[[Sequence[Graph]], list[frozenset[str] | None]]:
    return lambda graphs: [frozenset(names) for _ in graphs]


def conv(graph: Graph) -> Node:
    return next(n for n in graph.nodes if n.op == "nn.conv2d")


def test_the_search_finds_graphs_that_match() -> None:
    def only_strided(graphs: Sequence[Graph]) -> list[frozenset[str] | None]:
        return [frozenset({"conv"} if conv(g).attrs["strides"] == (2, 2) else {"other"}) for g in graphs]

    strided = answering(lambda g: Alone(conv(g).attrs["strides"] == (2, 2)))
    result = search(CONV, "relay", only_strided, strided)
    assert result.fate == "matched" and not result.reason
    assert all(conv(f.graph).attrs["strides"] == (2, 2) for f in result.fragments)


def test_the_search_finds_matches_after_a_rewrite_of_the_graph() -> None:
    """A pattern may match only after the partition function has rewritten the graph."""
    result = search(CONV, "relay", composites_of("conv"), answering(lambda g: Alone(False, structure=False)))
    assert result.fate == "matched"


def test_a_shadowed_pattern_is_reported_as_shadowed() -> None:
    result = search(CONV, "relay", composites_of("other"), answering(lambda g: Alone(True)))
    assert result.fate == "shadowed" and not result.fragments
    assert result.reason == "it matches alone; in the table other matches its graphs first"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Alone(False), "its check refuses all [0-9]+ graphs of its structure that were tried"),
        (Alone(False, raised="KeyError: 'x'"), "its check raises KeyError: 'x'"),
        (
            Alone(False, structure=False, arguments={"nn.conv2d": [3]}),
            "nn.conv2d has 3 arguments in TVM, the pattern gives it 2",
        ),
        (Alone(False, structure=False), "TVM finds its structure in none of the [0-9]+ graphs"),
    ],
)
def test_the_reason_why_a_pattern_is_never_matched(answer: Alone, reason: str) -> None:
    never = search(CONV, "relay", composites_of(), answering(lambda g: answer))
    assert never.fate == "never" and re.search(reason, never.reason), never.reason
    assert (never.raising is not None) == bool(answer.raised)


def test_an_exception_in_partitioning_is_the_reason() -> None:
    never = search(
        CONV, "relay", lambda graphs: [None for _ in graphs], lambda p, graphs: [None for _ in graphs]
    )
    assert never.fate == "never" and never.reason == "partitioning raises" and never.raising is not None


def test_the_search_follows_the_progress_of_a_check() -> None:
    """Several conditions must hold at once: the progress of the check tells which graphs to
    vary."""
    wanted = {"data_layout": "NHWC", "kernel_layout": "HWIO", "strides": (2, 2), "dilation": (1, 1)}

    def answer(graph: Graph) -> Alone:
        right = sum(conv(graph).attrs[k] == v for k, v in wanted.items())
        right += graph.inputs[0].type.shape[0] == 1
        return Alone(right == 5, progress=right)

    result = search(CONV, "relay", composites_of("conv"), answering(answer))
    assert result.fate == "matched"
    # Attributes that the check ignores keep their defaults.
    attrs = conv(result.fragments[0].graph).attrs
    assert attrs["kernel_size"] == (3, 3) and attrs["groups"] == 1 and attrs["padding"] == (0, 0, 0, 0)


@pytest.mark.parametrize("channels", [False, True])
def test_a_product_is_mostly_requantised_by_its_operands_scales(channels: bool) -> None:
    constants = [CONSTANT] * 4
    pattern = parse("q", [
        WILD, CONSTANT, *constants, call("qnn.conv2d", 0, 1, 2, 3, 4, 5), CONSTANT,
        call("nn.bias_add", 6, 7), *constants, call("qnn.requantize", 8, 9, 10, 11, 12),
    ])
    count, natural_ones = 0, 0
    for seed in range(200):
        graph = instance(pattern, {}, "relay", seed).graph
        by_name = {c.name: c.data for c in graph.constants}
        product, _, requantize = graph.nodes[-3:]
        x, w, s = (by_name[product.inputs[4]], by_name[product.inputs[5]], by_name[requantize.inputs[1]])
        if isinstance(w, list) != channels:
            continue
        count += 1
        if s == ([x * each for each in w] if isinstance(w, list) else x * w):
            natural_ones += 1
            assert by_name[requantize.inputs[2]] == 0
            if channels:
                axis = product.attrs["data_layout"].index("C")
                assert requantize.attrs["axis"] in (axis, axis - 4)
        elif seed == 0:
            raise AssertionError("the first graph has what is usual")
    # Some graphs have other scales: a target may not check them.
    assert count > 2 and count / 2 < natural_ones <= count


def test_values_named_in_a_check_are_preferred() -> None:
    def layouts(words: frozenset[object]) -> int:
        graphs = [instance(CONV, {}, "relay", seed, words).graph for seed in range(1, 41)]
        return sum(conv(g).attrs["data_layout"] == "NHWC" for g in graphs)

    assert layouts(frozenset({"NHWC"})) > 1.5 * layouts(frozenset())


def test_an_instance_is_varied_in_one_choice() -> None:
    first = instance(CONV, {}, "relay", 3)
    again = varied(CONV, first.way, "relay", first.seed, first.attempt, {}, first.words)
    assert again.graph == first.graph
    (name,) = (d for d in first.draws if d.endswith("strides"))
    other = varied(CONV, first.way, "relay", first.seed, first.attempt, {name: 0.999}, first.words)
    assert conv(other.graph).attrs["strides"] != conv(first.graph).attrs["strides"]
    assert conv(other.graph).attrs["data_layout"] == conv(first.graph).attrs["data_layout"]


def test_drawn_numbers_depend_only_on_their_name() -> None:
    one, other = Draws("seed"), Draws("seed", {"b": 0.5})
    assert [one.random("a"), one.random("c")] == [other.random("a"), other.random("c")]
    assert other.random("b") == 0.5 and other.used == ["a", "c", "b"]
    other.forget(1)
    assert other.used == ["a"] and other.choice("b", "xyz") == "y"


# --- with TVM ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def partitions(ir: str) -> Iterator[Partitions]:
    with partitions_of("example_c", "pytest_byoc.examples.example_c:target", ir) as found:
        yield found


def test_every_pattern_of_example_c_is_matched(partitions: Partitions, ir: str) -> None:
    patterns: list[Pattern] = partitions.patterns()
    assert len(patterns) >= (6 if ir == "relay" else 40)
    for pattern in patterns:
        result = search(pattern, ir, partitions.composites, partitions.alone)
        assert result.fragments, result.reason
        for fragment in result.fragments:
            partition = partitions.known(fragment.graph)
            assert partition is not None and any(partition.offloaded) and pattern.name in partition.composites


def test_twice_chains_two_instances_with_different_constants() -> None:
    b = Builder(seed=1)
    x = b.input(TensorType((4, 6), "float32"))
    graph = b.graph(b.simple("nn.relu", b.simple("nn.dense", x, units=6)))
    chained = twice(graph)
    assert [n.op for n in chained.nodes] == ["nn.dense", "nn.relu"] * 2
    assert len(chained.constants) == 2 and chained.inputs == graph.inputs
    assert chained.nodes[2].inputs == (graph.outputs[0], chained.constants[1].name)
    arrays = {**data.constants(chained), **data.inputs(chained, 0)}
    first, second = (bounded.value for bounded in evaluate(chained, arrays))
    weight = arrays[chained.constants[1].name]
    assert not np.array_equal(weight, arrays[chained.constants[0].name])
    np.testing.assert_allclose(second, np.maximum(first @ weight.astype("float64").T, 0), rtol=1e-5)


@pytest.mark.parametrize("units", (5, 6))
def test_twice_shares_the_input_where_instances_cannot_be_chained(units: int) -> None:
    b = Builder(seed=1)
    # The input's domain excludes the result of an instance, which may be negative.
    x = b.input(TensorType((4, 6), "float32"), 0.5, 2.0)
    parallel = twice(b.graph(b.simple("nn.dense", x, units=units)))
    assert [n.inputs[0] for n in parallel.nodes] == [x, x] and len(parallel.constants) == 2


def test_the_target_offloads_both_instances(partitions: Partitions, ir: str) -> None:
    assert len(partitions.patterns()) >= 6
    for pattern in partitions.patterns()[:12]:
        graph = search(pattern, ir, partitions.composites, partitions.alone).fragments[0].graph
        alone, both = partitions.survey([graph, twice(graph)])
        assert alone is not None and both is not None
        assert both.offloaded == alone.offloaded * 2, pattern.name


def test_near_misses_of_example_c_are_partitioned(partitions: Partitions, ir: str) -> None:
    """A near miss is a valid graph: TVM accepts it, and so does the partition function."""
    assert len(partitions.patterns()) >= 6
    for pattern in partitions.patterns()[:6]:
        graph = search(pattern, ir, partitions.composites, partitions.alone).fragments[0].graph
        misses = dict(near_misses(graph, ir))
        partitions.survey(misses.values())
        bad = [label for label, near in misses.items() if partitions.known(near) is None]
        assert not bad, (pattern.name, bad)
