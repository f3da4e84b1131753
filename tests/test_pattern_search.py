"""Tests of the search for graphs that the checks of patterns ask for, as vendors write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.examination.partitions import Partitions
from pytest_byoc.generation.patterns import (
    Alone,
    NoInstance,
    Pattern,
    SearchResult,
    instance,
    parse,
    search,
)
from pytest_byoc.generation.patterns.alternatives import Reading
from pytest_byoc.generation.patterns.inverses import inverses
from pytest_byoc.generation.patterns.matching_parts import matching_parts
from pytest_byoc.generation.patterns.numbers import together
from pytest_byoc.operators import OPERATORS

from .conftest import FIXTURES, partitions_of

WILD = {"is": "wildcard"}
CONSTANT = {"is": "constant"}


def call(op: str, *args: int) -> dict[str, object]:
    return {"is": "call", "ops": [op], "args": list(args), "more": False}


def named(name: str, ir: str) -> str:
    """Returns the IR's name of an operator."""
    lowering = getattr(OPERATORS[name], ir)
    assert lowering is not None
    return str(lowering.op)


def searched(pattern: Pattern, answer: Callable[[Graph], Alone], ir: str) -> SearchResult:
    """Returns the result of the search if the table holds only the pattern."""

    def matches(graphs: Sequence[Graph]) -> list[frozenset[str] | None]:
        return [frozenset([pattern.name] if answer(g).matched else []) for g in graphs]

    return search(pattern, ir, matches, lambda p, graphs: [answer(g) for g in graphs])


def one_after_the_other(*conditions: Callable[[Graph], bool]) -> Callable[[Graph], Alone]:
    """Returns the answer of a check that ends at the first condition that does not hold."""

    def answer(graph: Graph) -> Alone:
        held = next((i for i, holds in enumerate(conditions) if not holds(graph)), len(conditions))
        return Alone(held == len(conditions), progress=held)

    return answer


@pytest.mark.parametrize("ir", ["relay", "relax"])
def test_two_inner_axes_change_places(ir: str) -> None:
    """The channels of groups are shuffled: reshape to five axes, exchange the second and third, reshape."""
    reshape, transpose = named("reshape", ir), named("transpose", ir)
    nodes = [WILD, call(reshape, 0), call(transpose, 1), call(reshape, 2)]
    if ir == "relax":
        nodes = [WILD, WILD, call(reshape, 0, 1), call(transpose, 2), WILD, call(reshape, 3, 4)]

    def ranks(graph: Graph) -> list[int]:
        return [n.types[0].rank for n in graph.nodes if n.op != "abs"]

    def axes(graph: Graph) -> object:
        return next(n.attrs["axes"] for n in graph.nodes if n.op == "transpose")

    check = one_after_the_other(lambda g: ranks(g) == [5, 5, 4], lambda g: axes(g) == (0, 2, 1, 3, 4))
    assert searched(parse("shuffle", nodes), check, ir).fate == "matched"


def test_branches_of_one_form_are_mostly_alike() -> None:
    """Each branch is reshaped and dequantized; the branches are joined."""
    constants = [CONSTANT, CONSTANT]
    branch = [WILD, WILD, call("reshape", 0, 1), *constants, call("dequantize", 2, 3, 4)]
    second = [WILD, WILD, call("reshape", 6, 7), *constants, call("dequantize", 8, 9, 10)]
    pattern = parse("joined", [*branch, *second, {"is": "tuple", "of": [5, 11]}, call("concat", 12)])
    alike = 0
    for seed in range(60):
        graph = instance(pattern, {}, "relax", seed).graph
        one, other = (n for n in graph.nodes if n.op == "reshape")
        alike += one.attrs == other.attrs and graph.type_of(one.inputs[0]) == graph.type_of(other.inputs[0])
    assert 30 < alike < 60


@pytest.mark.parametrize(
    "operator", ["transpose", "reshape", "expand_dims", "squeeze", "broadcast_to", "abs"]
)
def test_operands_are_found_for_a_shape_of_the_result(operator: str) -> None:
    shape = (2, 1, 6, 4)
    found = inverses(operator, shape)
    assert len(found) >= (1 if operator in ("abs", "expand_dims") else 4)
    for operand, parameters in found:
        attrs = OPERATORS[operator].attrs(parameters) if OPERATORS[operator].parameters else {}
        assert OPERATORS[operator].infer([TensorType(operand, "float32")], attrs)[0].shape == shape


def test_a_result_that_no_operand_gives_has_no_inverse() -> None:
    assert not inverses("expand_dims", (2, 3)) and not inverses("nn.dense", (2, 3))


def test_several_constants_get_numbers_of_the_code_in_its_order() -> None:
    found = together([0.5, "NHWC", 1.25, True, 7], 2)
    assert found[:2] == [(0.5, 1.25), (1.25, 7.0)]
    assert set(found) == {(a, b) for a in (0.5, 1.25, 7.0) for b in (0.5, 1.25, 7.0) if a != b}


def test_constants_that_a_check_compares_at_once_are_found() -> None:
    """Nothing shows which of the numbers is right."""
    nodes = [WILD, CONSTANT, call("multiply", 0, 1), CONSTANT, call("add", 2, 3)]
    pattern = parse("scaled", nodes)

    def answer(graph: Graph) -> Alone:
        numbers = [c.data[0] if isinstance(c.data, list) else c.data for c in graph.constants]
        return Alone(numbers == [0.3, 0.7], words=[0.3, 0.7, 12.0])

    result = searched(pattern, answer, "relax")
    assert result.fate == "matched", result.reason


def test_further_ways_begin_with_the_choices_that_led_to_a_match() -> None:
    """The check compares many attributes; the ways differ in the operator behind."""
    either = {"is": "call", "ops": ["nn.relu", "clip"], "args": [2], "more": False}
    pattern = parse("conv", [WILD, CONSTANT, call("nn.conv2d", 0, 1), either])
    wanted = {"data_layout": "NHWC", "kernel_layout": "HWIO", "strides": (2, 2), "padding": (0, 0, 0, 0)}

    def condition(key: str) -> Callable[[Graph], bool]:
        return lambda g: bool(next(n.attrs[key] for n in g.nodes if n.op == "nn.conv2d") == wanted[key])

    result = searched(pattern, one_after_the_other(*map(condition, wanted)), "relay")
    assert {f.graph.nodes[-1].op for f in result.fragments} == {"nn.relu", "clip"}


def test_dropout_of_relay_is_read_by_its_first_item() -> None:
    pattern = parse("dropout", [WILD, call("nn.dropout", 0), {"is": "item", "of": [1], "index": 0}])
    graph = instance(pattern, {}, "relay", 0).graph
    assert [n.op for n in graph.nodes] == ["nn.dropout"] and graph.outputs == graph.nodes[0].outputs[:1]


def test_an_operator_without_a_record_is_missing_for_a_reason() -> None:
    pattern = parse("p", [WILD, call("nn.pixel_shuffle", 0)])
    with pytest.raises(NoInstance, match=r"has no record: TVM 0\.27 has no implementation"):
        instance(pattern, {}, "relax", 0)


# --- with TVM ------------------------------------------------------------------------------------

#: Patterns of `fixtures/targets/vendor_patterns.py` that are found in seconds, with the number of their
#: ways. Their checks ask values of constants, axes of norms, numbers of joined values, both halves of a
#: value, groups of heads, shapes of weights and extents that are multiples of a number.
FOUND_SOON = {
    "channel_scale": 1, "softplus": 1, "hard_swish": 1, "gelu_erf": 1, "layer_norm": 1, "concat_3": 1,
    "concat_4": 1, "grouped_query": 1, "rotary": 1, "quantized_conv": 1, "quantized_product": 1,
    "depthwise": 1, "linear": 1, "matrices": 1, "scores_2": 1, "decoding": 1, "gates": 1, "gathered": 1,
    "sevenths": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def vendor_partitions(ir: str) -> Iterator[Partitions]:
    if ir != "relax":
        pytest.skip("the table is one of Relax")
    with partitions_of("target", f"{FIXTURES / 'targets' / 'vendor_patterns.py'}:target", ir) as found:
        yield found


@pytest.mark.parametrize(("name", "ways"), FOUND_SOON.items())
def test_patterns_as_vendors_write_them_are_matched(
    vendor_partitions: Partitions, ir: str, name: str, ways: int
) -> None:
    (pattern,) = (p for p in vendor_partitions.patterns() if p.label == f"vendor_patterns.{name}")
    result = search(pattern, ir, vendor_partitions.composites, vendor_partitions.alone)
    assert result.fate == "matched", result.reason
    assert len(result.fragments) == ways
    graphs: Sequence[Graph] = [fragment.graph for fragment in result.fragments]
    assert vendor_partitions.composites(graphs) == [{pattern.name}] * ways


@pytest.mark.once
@pytest.mark.parametrize("number", [2, 3])
def test_matching_parts_lie_one_behind_the_other(number: int) -> None:
    first, *_ = matching_parts("strided_slice", TensorType((2, 6), "float32"), number)
    ends = [part["end"][0] for part in first]
    assert [part["begin"][0] for part in first] == [0, *ends[:-1]] and ends[-1] == 6 and len(ends) == number
    assert {part["axes"] for part in first} == {(1,)}


@pytest.mark.once
def test_forms_of_deep_patterns_stay_small() -> None:
    """Each part is read twice, so that a text of the form would double each time."""
    nodes = [WILD, *(call("relax.add", n, n) for n in range(60))]
    pattern = parse("deep", nodes)
    assert len(Reading(pattern, {}, "relax").calls) == 60
