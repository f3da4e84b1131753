"""Tests of graphs that users write: they are checked against the records, with one message for each
error."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pytest_byoc as byoc
from pytest_byoc.core.graph import Graph, GraphError, Node, Source, TensorType
from pytest_byoc.generation import validation, without_llvm
from pytest_byoc.generation.adapting import adapted, forms
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.patterns import near_misses
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.generation.structures import STRUCTURES, Vocabulary
from pytest_byoc.generation.systematic import cases, default_case
from pytest_byoc.generation.validation import validate, validated
from pytest_byoc.operators import OPERATORS
from pytest_byoc.operators.measured import why_not
from pytest_byoc.storage import corpus

from .conftest import PYTHON

#: Both IRs behave the same.
pytestmark = pytest.mark.once

F32 = TensorType((2, 3), "float32")


def one(op: str, attrs: Any = None, inputs: tuple[str, ...] = ("x",), **more: Any) -> Graph:
    """Returns a graph of one node on float32[2,3]."""
    sources = tuple(Source(name, more.get("of", F32)) for name in dict.fromkeys(inputs))
    types = more.get("types", (F32,))
    names = tuple(f"y{i}" for i in range(len(types)))
    return Graph(sources, more.get("constants", ()), (Node(op, inputs, attrs or {}, names, types),), names)


def constant(data: Any, type_: TensorType = F32) -> Graph:
    """Returns a graph that adds a constant."""
    c = Source("c", type_, data=data)
    node = Node("add", ("x", "c"), {}, ("y",), (type_,))
    return Graph((Source("x", type_),), (c,), (node,), ("y",))


WRONG: dict[str, tuple[Any, str]] = {
    "no graph": ({}, "expected a pytest_byoc.Graph, found a dict"),
    "short name": (one("relu"), r"no operator 'relu' \(nn.relu\?\)"),
    "another IR's name": (one("nn.conv2d_", {}), r"no operator 'nn.conv2d_' \(nn.conv2d\?\)"),
    "Relax's name": (one("relax.permute_dims"), r"no operator 'relax.permute_dims' \(transpose\?\)"),
    "too many operands": (one("nn.relu", inputs=("x", "z")), "nn.relu, .*: it takes 1 operand, found 2"),
    "too few operands": (one("add"), "add, which makes y0: it takes 2 operands, found 1"),
    "no operand": (one("nn.relu", inputs=()), "nn.relu, .*: it has no operands"),
    "unknown attribute": (one("nn.relu", {"axis": 1}), "there is no attribute axis; it has none"),
    "missing attribute": (one("nn.softmax"), "nn.softmax, .*: the attribute axis is missing"),
    "axis out of range": (one("nn.softmax", {"axis": 99}), "axis 99 is out of range for rank 2"),
    "axis that is a word": (one("nn.softmax", {"axis": "last"}), "axis: found 'last', expected an int"),
    "NumPy's number": (one("nn.softmax", {"axis": np.int64(1)}), "int64 is not JSON serializable"),
    "word that is none": (
        one("cast", {"dtype": "float3"}), "cast, .*: dtype: found 'float3', known are .*'float64'",
    ),
    "nan": (one("nn.leaky_relu", {"alpha": float("nan")}), "alpha: found nan, expected a number"),
    "dtype that it does not accept": (
        one("erf", of=TensorType((2,), "int32"), types=(TensorType((2,), "int32"),)),
        "erf, .*: it does not accept int32; known are float32",
    ),
    "another type": (
        one("nn.relu", types=(TensorType((3, 2), "float32"),)),
        r"nn.relu makes float32\[2,3\] of these .*; the graph says float32\[3,2\] for y0",
    ),
    "results too many": (one("nn.relu", types=(F32, F32)), r"nn.relu makes float32\[2,3\] of .* for y0, y1"),
    "values that can't be calculated": (
        one("expand_dims", {"axis": 0, "num_newaxis": 70}, types=(replace(F32, shape=(1,) * 70 + (2, 3)),)),
        "its values can't be calculated: ",
    ),
    "rows of two lengths": (constant([[1, 2, 3], [4, 5]]), r"the elements of c do not fit float32\[2,3\]: "),
    "too few elements": (constant([1, 2]), r"the elements of c do not fit float32\[2,3\]: "),
    "an array": (constant(np.zeros((2, 3))), "ndarray is not JSON serializable"),
    "an integer out of range": (
        constant([1, 300], TensorType((2,), "int8")),
        r"the elements of c do not fit int8\[2\]: 300 is not a value",
    ),
    "half an integer": (constant([1, 0.5], TensorType((2,), "int8")), "0.5 is not a value"),
    "shape of floats": (one("nn.relu", of=replace(F32, shape=(2.0, 3.0))), "non-negative ints"),
    "unknown dtype": (one("nn.relu", of=TensorType((2,), "float31")), "unknown dtype 'float31'"),
    "a name that is none": (
        replace(one("nn.relu"), inputs=(Source(3, F32), Source("x", F32))),  # type: ignore[arg-type]
        "expected a name",
    ),
    "no node": (Graph((Source("x", F32),), (), (), ("x",)), "at least one node"),
    "unwritten attribute": (one("nn.softmax", {"axis": 1, "unset": ("axes",)}), r"unset: found \('axes',\)"),
    "too large": (one("nn.relu", of=TensorType((1 << 30,), "int8")), "more than 268435456 elements"),
}


@pytest.mark.parametrize("label", WRONG)
def test_an_invalid_graph_is_refused_with_one_message(label: str) -> None:
    graph, message = WRONG[label]
    with pytest.raises(byoc.GraphError, match=message) as info:
        validated(graph)
    assert "\n" not in str(info.value)


def test_names_are_checked_when_a_graph_is_constructed() -> None:
    node = Node("nn.relu", ("x",), {}, ("y",), (F32,))
    for inputs, nodes, outputs, message in (
        ((), (node,), ("y",), "reads 'x', which no input, constant or earlier node defines"),
        ((Source("x", F32),), (node, node), ("y",), "two values have the name 'y'"),
        ((Source("x", F32),), (node,), ("z",), "no input, constant or node defines the output 'z'"),
    ):
        with pytest.raises(GraphError, match=message):
            Graph(inputs, (), nodes, outputs)


def test_lists_are_accepted_for_tuples() -> None:
    node = Node("nn.relu", ["x"], {}, ["y"], [TensorType([2, 3], "float32")])  # type: ignore[arg-type]
    graph = Graph([Source("x", TensorType([2, 3], "float32"))], (), [node], ["y"])  # type: ignore[arg-type]
    assert validated(graph) == Graph(
        (Source("x", F32),), (), (Node("nn.relu", ("x",), {}, ("y",), (F32,)),), ("y",)
    )


def test_attributes_outside_the_systematic_cases_are_valid() -> None:
    operands = ("a", "b", "c", "d", "e", "f", "g")
    validate(one("concatenate", {"axis": -1}, operands, types=(TensorType((2, 21), "float32"),)))
    validate(one("nn.leaky_relu", {"alpha": 3}))
    validate(one("clip", {"a_min": -7.5, "a_max": 11.25}))


@pytest.mark.parametrize("ir", ["relay", "relax"])
def test_generated_graphs_are_valid(ir: str) -> None:
    names = [name for name, op in OPERATORS.items() if ir in op.irs()]
    graphs: list[Graph] = some(60, "valid", operators=names, ir=ir, max_nodes=4)
    everything = Vocabulary(frozenset(names))
    for name in random.Random(3).sample(sorted(STRUCTURES), 60):
        try:
            graphs.append(STRUCTURES[name](Builder(seed=1), everything))
        except Exception:  # not in this IR
            continue
    for number, name in enumerate(names):
        default = default_case(name, OPERATORS[name].dtypes[0], ir).graph
        ways = list(forms())
        converted = adapted(default, ways[number % len(ways)], ir)
        every = [*cases([name], ir), *without_llvm.cases([name], ir)]
        graphs += [c.graph for c in random.Random(number).sample(every, min(4, len(every)))]
        graphs += [c.graph for c in every if c.id.endswith("-unset]")]
        graphs += [g for _, g in near_misses(default, ir)][:: max(1, number % 5)][:3]
        graphs += [converted] if converted is not None else []
    assert len(graphs) > 500
    for graph in graphs:
        if not any(why_not(n.op, graph.type_of(n.inputs[0]).dtype, ir) for n in graph.nodes if n.inputs):
            validate(graph)


def test_graphs_of_a_strategy_are_not_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = validation.vouch_for(one("nn.relu"))
    monkeypatch.setattr(validation, "validate", lambda graph: pytest.fail("looked at"))
    assert validated(graph) is graph
    with pytest.raises(pytest.fail.Exception):
        validated(replace(graph))


def test_a_graph_in_a_file_is_validated_in_the_same_way(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text(one("nn.softmax", {"axis": 99}).to_json())
    with pytest.raises(byoc.GraphError, match=r"graph.json: nn.softmax, .*: axis 99 is out of range"):
        corpus.read(path)
    path.write_text(one("relu").to_json())
    with pytest.raises(byoc.GraphError, match=r"graph.json: .* no operator 'relu' \(nn.relu\?\)"):
        corpus.read(path)


def test_a_vendors_test_shows_only_the_message_and_the_line(pytester: pytest.Pytester, ir: str) -> None:
    pytester.makepyfile(
        """
        from pytest_byoc import Graph, Node, Source, TensorType

        def test_own(byoc_check):
            t = TensorType((2, 3), "float32")
            graph = Graph((Source("x", t),), (), (Node("relu", ("x",), {}, ("y",), (t,)),), ("y",))
            byoc_check(graph)
        """
    )
    result = pytester.runpytest_subprocess(
        "--byoc-target=example_c", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "-k", "own", ".", timeout=300
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [">*byoc_check(graph)", "E*GraphError: this version has no operator 'relu' (nn.relu?)"]
    )
    assert "validation.py" not in result.stdout.str() and "entry.py" not in result.stdout.str()
