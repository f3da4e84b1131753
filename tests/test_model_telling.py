"""Tests of what a session tells of whole models: what stood in the way of operators that are left to TVM,
which values cross boundaries, and the drawing."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from pytest_byoc.core.graph import Graph, Node, TensorType
from pytest_byoc.examination.partitions import Partition
from pytest_byoc.generation import data
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.plain import retyped
from pytest_byoc.generation.systematic import default_case
from pytest_byoc.record.model_boxes import MOST, Box, boxes, edges
from pytest_byoc.report import model_lines, model_picture
from pytest_byoc.report.schema import problems
from pytest_byoc.suite.model_cuts import cuts
from pytest_byoc.suite.model_drawing import drawing
from pytest_byoc.suite.model_import import Imported
from pytest_byoc.suite.obstacles import DTYPE, FORM, FUNCTION, OPERATOR, PLACE, Reason, reasons

from .conftest import PYTHON

IMAGE = TensorType((1, 32, 8, 8), "float32")
CONV = {
    "data_layout": "NCHW", "kernel_layout": "OIHW", "kernel_size": (3, 3), "strides": (1, 1),
    "padding": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1, "channels": 32, "out_dtype": "float32",
}
#: Returns whether a target offloads a node of a graph.
Takes = Callable[[Graph, Node], bool]

# --- what stood in the way -------------------------------------------------------------------------


class Target:
    """Stands for a target: partitions graphs by a rule. asked: the graphs that it was asked about."""

    def __init__(self, takes: Takes) -> None:
        self._takes = takes
        self.asked: list[Graph] = []

    def survey(self, graphs: Sequence[Graph]) -> list[Partition | None]:
        self.asked += graphs
        return [self._partition(graph) for graph in graphs]

    def _partition(self, graph: Graph) -> Partition:
        inside = [self._takes(graph, node) for node in graph.nodes]
        return Partition(tuple(0 if yes else None for yes in inside), int(any(inside)), frozenset())


def imported(graph: Graph, functions: Sequence[int] = ()) -> Imported:
    return Imported(graph, data.constants(graph), Path(), "", {}, frozenset(functions))


def told(graph: Graph, takes: Takes, position: int = 0) -> Reason:
    """Returns why a target leaves the node of a graph at a position to TVM."""
    return reasons(Target(takes).survey, "relay", imported(graph), [position])[position]


def conv(weight: str = "constant", x: TensorType = IMAGE, **attrs: Any) -> Graph:
    b, attrs = Builder(seed=5), {**CONV, **attrs}
    shape = TensorType((attrs["channels"], x.shape[1] // attrs["groups"], *attrs["kernel_size"]), x.dtype)
    operands = [b.input(x), b.constant(shape) if weight == "constant" else b.input(shape)]
    return b.graph(*b.node("nn.conv2d", operands, attrs))


def holds(graph: Graph, name: str) -> bool:
    return name in {s.name for s in graph.constants}


def rank(graph: Graph, node: Node) -> int:
    return graph.type_of(node.inputs[0]).rank


@pytest.mark.once
@pytest.mark.parametrize(
    ("graph", "takes", "expected"),
    [
        (conv(groups=32), lambda g, n: n.attrs["groups"] == 1, "groups=32"),
        (conv(dilation=(2, 2)), lambda g, n: n.attrs["dilation"] == (1, 1), "dilation=(2, 2)"),
        (conv(kernel_size=(1, 1)), lambda g, n: n.attrs["kernel_size"] != (1, 1), "kernel_size=(1, 1)"),
        (conv("input"), lambda g, n: holds(g, n.inputs[1]), "the weight is no constant"),
        (
            conv(x=TensorType((4, 32, 8, 8), "float32")),
            lambda g, n: g.type_of(n.inputs[0]).shape[0] == 1, "extent 4 of axis 0",
        ),
        (
            conv(), lambda g, n: g.type_of(n.inputs[0]).shape[1] < 32, "shape (1, 32, 8, 8)",
        ),
        (
            conv(groups=32, dilation=(2, 2)),
            lambda g, n: n.attrs["groups"] == 1 and n.attrs["dilation"] == (1, 1),
            "each of groups=32, dilation=(2, 2)",
        ),
    ],
)
def test_what_stood_in_the_way_is_named(graph: Graph, takes: Takes, expected: str) -> None:
    reason = told(graph, takes)
    assert reason == Reason(FORM, expected)


@pytest.mark.once
def test_the_elements_and_the_type_of_an_operand_are_named() -> None:
    b = Builder(seed=5)
    x, bias = b.input(IMAGE), b.constant(TensorType((32, 1, 1), "float32"))
    graph = b.graph(*b.node("add", [x, bias], {}))

    def takes_equal(g: Graph, n: Node) -> bool:
        return g.type_of(n.inputs[0]) == g.type_of(n.inputs[1])

    assert told(graph, takes_equal) == Reason(FORM, "operand 1 is float32[32,1,1]")
    assert told(graph, lambda g, n: not g.constants) == Reason(FORM, "operand 1 is a constant")


@pytest.mark.once
def test_a_rank_is_named() -> None:
    b = Builder(seed=5)
    graph = b.graph(b.simple("nn.relu", b.input(TensorType((2, 3, 4, 5, 6), "float32"))))
    assert told(graph, lambda g, n: rank(g, n) < 5) == Reason(FORM, "rank 5")


@pytest.mark.once
def test_a_dtype_is_named_with_those_that_the_target_takes() -> None:
    b = Builder(seed=5)
    half = b.graph(b.simple("nn.relu", b.input(TensorType((2, 3), "float16"))))

    def takes(g: Graph, n: Node) -> bool:
        return g.type_of(n.inputs[0]).dtype in ("float32", "int8")

    assert told(half, takes) == Reason(DTYPE, "float16; the target takes float32, int8")
    assert told(half, lambda g, n: False) == Reason(OPERATOR)
    # The dtype of a result, here of an integer, is not that of the operand.
    usual = default_case("argmax", "float32").graph
    keeps = not usual.nodes[0].attrs["keepdims"]
    (position,) = retyped(usual, {}, {0: {**usual.nodes[0].attrs, "keepdims": keeps}})
    assert position.nodes[0].types[0].dtype.startswith("int")

    def takes_one(g: Graph, n: Node) -> bool:
        return takes(g, n) and n.attrs["keepdims"] != keeps

    assert told(position, takes_one) == Reason(FORM, f"keepdims={keeps}")


@pytest.mark.once
def test_a_neighbour_is_named() -> None:
    b = Builder(seed=5)
    x = b.input(IMAGE)
    y = b.simple("tanh", b.simple("nn.relu", b.simple("exp", x)))
    graph = b.graph(y)

    def behind(op: str) -> Takes:
        def takes(g: Graph, n: Node) -> bool:
            makers = {name: node.op for node in g.nodes for name in node.outputs}
            return n.op == "nn.relu" and op not in map(makers.get, n.inputs)

        return takes

    def before(g: Graph, n: Node) -> bool:
        return n.op == "nn.relu" and not any(set(n.outputs) & set(other.inputs) for other in g.nodes)

    def between(g: Graph, n: Node) -> bool:
        return n.op == "nn.relu" and len(g.nodes) < 3

    assert told(graph, behind("exp"), 1) == Reason(PLACE, "not where exp makes operand 0")
    assert told(graph, before, 1) == Reason(PLACE, "not where tanh reads its result")
    assert told(graph, between, 1) == Reason(PLACE, "not between exp, tanh")
    assert told(graph, lambda g, n: n.op == "nn.relu", 1) == Reason(PLACE)


@pytest.mark.once
def test_operators_that_are_alike_are_asked_of_once() -> None:
    b = Builder(seed=5)
    value = b.input(IMAGE)
    for _ in range(300):
        weight = b.constant(TensorType((32, 1, 3, 3), "float32"))
        (value,) = b.node("nn.conv2d", [value, weight], {**CONV, "groups": 32, "padding": (1, 1, 1, 1)})
    target = Target(lambda g, n: n.attrs["groups"] == 1)
    model = imported(b.graph(value), functions=[7])
    found = reasons(target.survey, "relay", model, range(300))
    assert found.pop(7) == Reason(FUNCTION)
    assert set(found.values()) == {Reason(FORM, "groups=32")}
    assert len(set(target.asked)) < 60


# --- cuts ----------------------------------------------------------------------------------------


@pytest.mark.once
def test_values_that_cross_boundaries_are_listed_by_their_bytes() -> None:
    b = Builder(seed=5)
    x = b.input(TensorType((2, 3), "float32"))
    a = b.simple("nn.relu", x)
    c = b.simple("exp", a)
    d = b.simple("tanh", c)
    (e,) = b.node("add", [a, d], {})
    listed = cuts(b.graph(e, x), [0, 1, None, 2])
    assert [(c["value"], c["count"], c["bytes"], c["from"]["operator"]) for c in listed] == [
        # Out of one region, and into two others.
        (a, 1, 3 * 24, "nn.relu"),
        (x, 1, 24, "input"), (c, 1, 24, "exp"), (d, 1, 24, "tanh"), (e, 1, 24, "add"),
    ]
    assert listed[0]["to"] == [{"operator": "exp", "region": 1}, {"operator": "add", "region": 2}]
    assert listed[2]["to"] == [{"operator": "tanh", "region": None}]
    assert listed[4]["to"] == [{"operator": "output", "region": None}]
    assert cuts(b.graph(e), [0, 0, 0, 0])[0]["bytes"] == 24
    assert cuts(b.graph(e), [None] * 4) == []


@pytest.mark.once
def test_cuts_that_are_alike_are_one() -> None:
    b = Builder(seed=5)
    value = b.input(TensorType((2, 3), "float32"))
    for _ in range(60):
        value = b.simple("tanh", b.simple("nn.relu", value))
    places = [n // 2 if n % 2 == 0 else None for n in range(120)]
    listed = cuts(b.graph(value), places)
    assert [(c["from"]["operator"], c["count"], c["bytes"]) for c in listed] == [
        ("nn.relu", 60, 60 * 24), ("tanh", 59, 59 * 24), ("input", 1, 24)
    ]


# --- boxes ---------------------------------------------------------------------------------------


def chain(length: int) -> list[list[int]]:
    return [[n - 1] if n else [] for n in range(length)]


def boxed(reads: list[list[int]], places: list[int | None], operators: Sequence[str] = ()) -> list[Box]:
    """Returns the boxes of a model: at most MOST, each node in one, each edge to a later box."""
    found = boxes(reads, places, operators or ["a"] * len(reads))
    assert sorted(node for box in found for node in box.nodes) == list(range(len(reads)))
    assert all(a < b for a, b in edges(found, reads)) and len(found) <= MOST
    return found


def shape(found: Sequence[Box]) -> list[tuple[int, list[int]]]:
    """Returns for each box how often it repeats, and the numbers of operators of its runs."""
    return [(box.times, [len(run.nodes) for run in box.once]) for box in found]


@pytest.mark.once
def test_one_region_and_nothing_offloaded_are_one_box() -> None:
    for place in (0, None):
        (box,) = boxed(chain(1000), [place] * 1000)
        assert box.times == 1 and box.runs[0].region == place


@pytest.mark.once
def test_a_chain_of_a_thousand_that_alternates_is_folded() -> None:
    found = boxed(chain(1000), [n // 4 if n % 4 < 2 else None for n in range(1000)])
    assert shape(found) == [(1, [2]), (249, [2, 2]), (1, [2])]


@pytest.mark.once
def test_blocks_that_repeat_are_one_box() -> None:
    # A block: a region, two operators left to TVM beside each other, a region that reads both.
    reads, places, operators = [[]], [None], ["embedding"]
    for block in range(12):
        at = len(reads)
        reads += [[at - 1], [at], [at], [at + 1, at + 2, at - 1]]
        places += [2 * block, None, None, 2 * block + 1]
        operators += ["matmul", "erf", "where", "add"]
    found = boxed(reads, places, operators)
    assert shape(found) == [(1, [1]), (12, [1, 1, 1, 1])]


@pytest.mark.once
def test_blocks_that_differ_in_an_edge_are_not_one() -> None:
    reads: list[list[int]] = [[]]
    for block in range(6):
        at = len(reads)
        reads += [[at - 1], [at], [at + 1, at if block % 2 else at - 1]]
    places = [n if n % 3 else None for n in range(len(reads))]
    assert all(box.times < 6 for box in boxed(reads, places))


@pytest.mark.once
def test_a_region_around_an_operator_of_the_host_is_two_boxes() -> None:
    # 0 and 3 are in one region; 1, which lies between them, is not.
    diamond = [[], [0], [0], [1, 2]]
    found = boxed(diamond, [0, None, 0, 0])
    assert [run.nodes for box in found for run in box.runs] == [(0, 2), (1,), (3,)]
    # A region that reads another value than its own beside it is whole.
    found = boxed([[], [], [0, 1]], [0, None, 0])
    assert [run.nodes for box in found for run in box.runs] == [(1,), (0, 2)]
    # Two regions that depend on each other.
    found = boxed([[], [], [1], [0]], [0, 1, 0, 1])
    assert sorted(run.nodes for box in found for run in box.runs) == [(0,), (1,), (2,), (3,)]


@pytest.mark.once
def test_no_folding_makes_a_circle() -> None:
    chosen = random.Random(7)

    def near(n: int) -> list[int]:
        return sorted(chosen.sample(range(max(n - 9, 0), n), min(n, chosen.randint(0, 3))))

    for _ in range(150):
        length = chosen.choice((4, 12, 50, 200))
        reads = [near(n) for n in range(length)]
        regions = chosen.randint(1, max(length // 4, 1))
        places = [chosen.choice([None, chosen.randrange(regions)]) for _ in range(length)]
        boxed(reads, places, [chosen.choice("ab") for _ in range(length)])


# --- drawing -------------------------------------------------------------------------------------


@pytest.mark.once
def test_a_model_of_a_thousand_operators_is_drawn() -> None:
    chosen, b = random.Random(3), Builder(seed=5)
    values = [b.input(IMAGE, name="image")]
    for _ in range(1000):
        if chosen.random() < 0.4:
            values += b.node("add", [values[-1], values[-min(len(values), chosen.randint(1, 9))]], {})
        else:
            values.append(b.simple(chosen.choice(("nn.relu", "tanh", "exp")), values[-1]))
    graph = b.graph(*values[-7:])
    places = [n // 9 if chosen.random() < 0.8 else None for n in range(1000)]
    made = drawing(graph, places)
    picture = model_picture.svg(made)
    assert len(made["boxes"]) == MOST and len(json.dumps(made)) < 60_000
    assert sum(box["operators"] for box in made["boxes"]) == 1000
    assert made["outputs"] == [{"what": "7 outputs", "type": "", "boxes": made["outputs"][0]["boxes"]}]
    assert picture.count("<rect") >= MOST and "input %image" in picture


@pytest.mark.once
def test_a_drawing_names_operators_regions_and_repetitions() -> None:
    b = Builder(seed=5)
    value = b.simple("exp", b.input(IMAGE, name="<image>"))
    for _ in range(12):
        value = b.simple("tanh", b.simple("nn.relu", b.simple("nn.relu", value)))
    graph = b.graph(value)
    places = [None if n % 3 == 0 else n // 3 for n in range(37)]
    made = drawing(graph, places)
    assert [(box["times"], box["operators"], box["offloaded"], box["regions"]) for box in made["boxes"]] == [
        (1, 1, 0, 0), (12, 36, 24, 12)
    ]
    assert made["edges"] == [{"from": 0, "to": 1, "bytes": 8192}]
    picture = str(model_picture.svg(made))
    written = (">exp<", ">S1 …: nn.relu x2<", ">TVM: tanh<", ">x 12<", "input %&lt;image&gt;", "8.19kB")
    for text in written:
        assert text in picture
    assert "<image>" not in picture


# --- lines and sessions ----------------------------------------------------------------------------


@pytest.mark.once
def test_lines_on_a_model_are_few() -> None:
    left = [{"operator": f"op{n}", "count": 1, "why": FORM, "obstacle": "groups=2"} for n in range(40)]
    end = {"operator": "add", "region": 3}
    cut = {"value": "v1", "type": "int8[2]", "count": 3, "bytes": 6, "from": end, "to": [end, end]}
    model = {
        "case": "model[m]", "outcome": "pass", "operators": 50, "offloaded": 10, "multiply_adds": 0,
        "subgraphs": 4, "smallest": 4, "boundary_bytes": 60, "extents": {}, "no_bound": "", "left": left,
        "cuts": [cut] * 9,
    }
    lines = model_lines.in_words(model)
    assert len(lines) == 1 + 12 + 1 + 3
    assert lines[1] == "  left to TVM: op0 (1): not with these attributes or shapes: groups=2"
    assert lines[13] == "  left to TVM: 28 more in report.json"
    assert lines[14].endswith(": %v1 int8[2] and 2 alike, 6B: from add (S4) to add (S4), add (S4)")
    model["left"] = [{**left[0], "count": n, "obstacle": f"groups={n}"} for n in range(6, 0, -1)]
    assert model_lines.in_words(model)[1] == (
        "  left to TVM: op0 (21): not with these attributes or shapes: "
        "groups=6 (6); groups=5 (5); groups=4 (4); groups=3 (3); 2 more"
    )
    # A report of an earlier version lacks some of it.
    del model["cuts"]
    (row,) = model_lines.rows([{**model, "left": [{"operator": "x", "count": 1, "why": FORM}]}])
    assert row["left"] == [f"x (1): {FORM}"] and row["cuts"] == [] and row["drawing"] is None


#: A target that leaves convolutions in groups to TVM.
PICKY = """\
from pytest_byoc.examples.example_c import ExampleC, support

checked = support._CHECKS["conv2d"]
support._CHECKS["conv2d"] = lambda step: checked(step) or ("groups" if step.attrs["groups"] > 1 else None)
target = ExampleC()
"""


def test_a_session_tells_what_stood_in_the_way(pytester: pytest.Pytester, ir: str) -> None:
    (pytester.path / "picky.py").write_text(PICKY)
    chosen = random.Random(5)

    def weight(name: str, *shape: int) -> Any:
        return helper.make_tensor(
            name, TensorProto.FLOAT, shape, [chosen.uniform(-0.5, 0.5) for _ in range(_product(shape))]
        )

    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], kernel_shape=[3, 3]),
        helper.make_node("Conv", ["a", "w1"], ["b"], kernel_shape=[3, 3], group=4),
        helper.make_node("Relu", ["b"], ["c"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, [1, 4, 4, 4])],
        [weight("w0", 4, 3, 3, 3), weight("w1", 4, 1, 3, 3)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, pytester.path / "net.onnx")
    result = pytester.runpytest_subprocess(
        "--byoc-target=picky.py:target", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}",
        "-p", "no:cacheprovider", "--byoc-model=net.onnx", "--byoc-report=out", timeout=300,
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines([
        "model[[]net[]]: pass; 2 of 3 operators offloaded, *, in 2 subgraphs; *",
        "  left to TVM: nn.conv2d (1): not with these attributes or shapes: groups=4",
        "  crosses a boundary: %x float32[[]1,3,8,8[]], 768B: from input to nn.conv2d (S1)",
    ])
    report = json.loads((pytester.path / "out" / "report.json").read_text())
    assert problems(report) == []
    (told_of,) = report["models"]
    assert sum(cut["bytes"] for cut in told_of["cuts"]) == told_of["boundary_bytes"]
    assert [box["runs"][0]["region"] for box in told_of["drawing"]["boxes"]] == [0, None, 1]
    page = (pytester.path / "out" / "report.html").read_text()
    assert "What crosses the boundaries of" in page and "drawing of a model in 3 parts" in page


def _product(shape: Sequence[int]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size
