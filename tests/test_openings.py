"""Tests of the extents that a graph may leave open: which they are, and what follows them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.core.openings import OpenExtent, Opening, shapes_in_words, sizes_in_words
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.openings import VARIABLES, openings
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.generation.resizing import resized
from pytest_byoc.generation.structures import STRUCTURES, Vocabulary
from pytest_byoc.operators import OPERATORS
from pytest_byoc.operators.record import TypeRuleError
from pytest_byoc.operators.reshaping import following, reshaped

pytestmark = pytest.mark.once


def shaped(b: Builder, *shape: int) -> str:
    return b.input(TensorType(shape, "float32"))


def words(found: Sequence[Opening]) -> list[str]:
    return [shapes_in_words(o.graph, o.extents) for o in found]


def unary(*shape: int) -> Graph:
    b = Builder(seed=1)
    return b.graph(b.simple("nn.relu", shaped(b, *shape)))


def test_all_axes_then_the_second_the_first_and_the_last() -> None:
    assert words(openings(unary(2, 3, 4))) == [
        "%x0: float32[n,m,k]", "%x0: float32[2,n,4]", "%x0: float32[n,3,4]", "%x0: float32[2,3,n]",
    ]


def test_variables_have_different_values_where_extents_are_equal() -> None:
    everything = openings(unary(3, 3, 3))[0]
    assert sizes_in_words(everything.graph, everything.extents) == "n=3, m=3, k=3"
    assert sizes_in_words(everything.larger, everything.extents) == "n=7, m=8, k=9"


def test_a_graph_without_axes_has_no_opening() -> None:
    assert openings(unary()) == []


def test_axes_that_only_grow_together_have_one_variable() -> None:
    b = Builder(seed=1)
    graph = b.graph(b.node("add", (shaped(b, 2, 3), shaped(b, 2, 3)), {})[0])
    assert words(openings(graph))[0] == "%x0: float32[n,m], %x1: float32[n,m]"


def test_an_axis_of_one_that_is_broadcast_stays_one() -> None:
    b = Builder(seed=1)
    graph = b.graph(b.node("add", (shaped(b, 3, 3), shaped(b, 1, 3)), {})[0])
    assert words(openings(graph))[0] == "%x0: float32[n,m], %x1: float32[1,m]"


def test_an_axis_that_meets_a_constant_is_closed() -> None:
    b = Builder(seed=1)
    graph = b.graph(b.simple("nn.dense", shaped(b, 3, 8), units=5))
    assert words(openings(graph)) == ["%x0: float32[n,8]"]


def test_equal_extents_of_other_axes_are_told_apart() -> None:
    """Query, key and value have axes of one length; only those that meet share a variable."""
    b = Builder(seed=1)
    query, key, value = (shaped(b, 2, 4, 4) for _ in range(3))
    scores = b.simple("nn.batch_matmul", query, key, transpose_b=True)
    graph = b.graph(b.simple("nn.batch_matmul", scores, value, transpose_b=False))
    assert words(openings(graph))[0] == (
        "%x0: float32[n,m,k], %x1: float32[n,l,k], %x2: float32[n,l,p]"
    )


def test_two_inputs_share_a_variable() -> None:
    b = Builder(seed=1)
    graph = b.graph(b.node("concatenate", tuple(shaped(b, 2, rows, 3) for rows in (4, 4, 5)), {"axis": 1})[0])
    found = openings(graph)
    assert words(found)[1:3] == [
        "%x0: float32[2,n,3], %x2: float32[2,n+1,3]", "%x0: float32[2,n,3], %x1: float32[2,n,3]",
    ]
    unequal = found[1]
    assert unequal.larger.inputs[2].type.shape[1] == unequal.larger.inputs[0].type.shape[1] + 1
    # Where all that the IR knows is that extents are open, these are two openings of one kind.
    of_any = openings(graph, variables=False)
    axes = [frozenset(e[:2] for e in o.extents) for o in of_any]
    assert len(set(axes)) == len(axes)


def test_an_axis_that_is_divided_grows_by_multiples() -> None:
    b = Builder(seed=1)
    graph = b.graph(b.simple("reshape", shaped(b, 6, 5), newshape=(2, 3, 5)))
    opening = next(o for o in openings(graph) if words([o]) == ["%x0: float32[n,5]"])
    assert opening.larger.inputs[0].type.shape[0] % 3 == 0
    assert opening.graph.nodes[0].types == graph.nodes[0].types


@pytest.mark.parametrize(
    ("old", "newshape", "new", "result"),
    [
        ((2, 3, 4), (6, 4), (5, 3, 4), (15, 4)),
        ((2, 3, 4), (6, 4), (2, 7, 4), (14, 4)),
        ((2, 5, 6), (2, 5, 2, 3), (3, 9, 6), (3, 9, 2, 3)),
        ((2, 2, 5, 3), (4, 5, 3), (7, 2, 11, 3), (14, 11, 3)),
        ((6, 5), (2, 3, 5), (12, 5), (4, 3, 5)),
        ((6, 5), (2, 3, 5), (8, 5), (2, 4, 5)),
        ((2, 3), (2, 1, 3), (2, 7), (2, 1, 7)),
        ((2, 3, 4), (24,), (5, 3, 4), (60,)),
        ((1, 3), (3,), (1, 7), (7,)),
        ((4, 6), (8, 3), (8, 6), (16, 3)),
        ((2, 3), (2, 3, 1), (2, 5), (2, 5, 1)),
    ],
)
def test_a_reshape_follows_its_operand(
    old: tuple[int, ...], newshape: tuple[int, ...], new: tuple[int, ...], result: tuple[int, ...]
) -> None:
    before, given = (TensorType(shape, "float32") for shape in (old, new))
    shapes = []
    for attrs in following([before], [given], {"newshape": newshape}):
        assert reshaped(old, attrs["newshape"]) == newshape
        try:
            shapes.append(reshaped(new, attrs["newshape"]))
        except TypeRuleError:
            pass
    assert shapes[0] == result


def test_a_reshape_that_mixes_two_open_axes_does_not_follow() -> None:
    before, given = TensorType((4, 6, 5), "float32"), TensorType((8, 12, 5), "float32")
    for attrs in following([before], [given], {"newshape": (3, 8, 5)}):
        assert reshaped((8, 12, 5), attrs["newshape"])[-1] == 5


def every_structure() -> list[Graph]:
    vocabulary, graphs = Vocabulary(frozenset(OPERATORS) - {"floor"}), []
    for name in ("appended", "heads_split", "attentions", "flows", "diamond", "long_chain"):
        graphs.append(STRUCTURES[name](Builder(seed=1), vocabulary))
    return graphs


def test_openings_of_structures_and_random_graphs_are_valid() -> None:
    """The attributes of an opened graph fit its own extents and the larger ones; its types are the
    graph's own."""
    counted = 0
    for graph in [*every_structure(), *some(60, "openings", max_nodes=5)]:
        for opening in openings(graph):
            counted += 1
            assert [n.types for n in opening.graph.nodes] == [n.types for n in graph.nodes]
            assert len({e.variable for e in opening.extents}) <= len(VARIABLES)
            for form in (opening.graph, opening.larger):
                for node, its in zip(form.nodes, opening.graph.nodes):
                    given = [form.type_of(i) for i in node.inputs]
                    assert OPERATORS[node.op].infer(given, its.attrs) == node.types
            own, larger = (
                {(e.input, e.axis): g.type_of(e.input).shape[e.axis] for e in opening.extents}
                for g in (graph, opening.larger)
            )
            assert resized(graph, larger) == opening.larger
            assert all(larger[axis] > own[axis] for axis in own)
    assert counted > 100


def test_rows_appended_to_a_cache() -> None:
    opening = openings(every_structure()[0])[1]
    assert words([opening]) == ["%x0: float32[2,n+3,3], %x1: float32[2,n,3]"]
    assert opening.larger.type_of(opening.larger.outputs[1]).shape == (2, 9, 3)


def test_an_open_extent_in_words() -> None:
    assert [OpenExtent("x0", 1, "n", plus).text for plus in (0, 2)] == ["n", "n+2"]
