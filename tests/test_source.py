"""A graph written as TVM source."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_byoc.generation import systematic
from pytest_byoc.generation.builder import Builder
from pytest_byoc.graph import Graph, TensorType
from pytest_byoc.operators import OPERATORS
from pytest_byoc.report.source import SourceError, literal, source

from .conftest import several_outputs


@pytest.mark.parametrize("ir", ("relay", "relax"))
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_can_be_written_as_tvm_code(operator: str, ir: str) -> None:
    if ir not in OPERATORS[operator].irs():
        pytest.skip(f"{operator} is not in {ir}")
    for case in systematic.cases([operator], ir):
        text = "\n".join(source(case.graph, ir))
        compile(text, case.id, "exec")
        assert "object at" not in text, text


def test_relay_source_reads_like_relay() -> None:
    assert source(several_outputs(), "relay") == [
        "x0 = relay.var('x0', shape=(2, 6), dtype='float32')",
        "c0 = relay.const(tvm.nd.array(data['constant.c0']))",
        "v0 = relay.add(x0, c0)",
        "v1 = relay.nn.relu(v0)",
        "t0 = relay.split(v1, [2], axis=1).astuple()",
        "v2 = relay.TupleGetItem(t0, 0)",
        "v3 = relay.TupleGetItem(t0, 1)",
        "v4 = relay.tanh(v2)",
        "body = relay.Tuple([v4, v3, v3, x0, c0])",
        "module = tvm.IRModule.from_expr(relay.Function([x0], body))",
        "module = relay.transform.InferType()(module)",
    ]


def test_relax_source_emits_one_binding_per_node() -> None:
    b = Builder(seed=1)
    x = b.input(TensorType((2, 3), "float32"))
    weight = b.constant(TensorType((4, 3), "float32"))
    graph = b.graph(b.node("nn.dense", [x, weight], {"units": 4})[0])
    assert [line.strip() for line in source(graph, "relax")[5:8]] == [
        "with builder.dataflow():",
        "t0 = relax.op.permute_dims(c0, [1, 0])",
        "v0 = builder.emit(relax.op.matmul(x0, t0))",
    ]


def test_names_are_python_names_and_do_not_clash() -> None:
    t = TensorType((1,), "float32")
    b = Builder()
    graph = b.graph(b.simple("abs", b.input(t)))
    renamed = Graph.from_json(graph.to_json().replace('"x0"', '"relay"').replace('"v0"', '"for 1"'))
    text = "\n".join(source(renamed, "relay"))
    compile(text, "renamed", "exec")
    assert "relay_1 = relay.var('relay'" in text
    assert "for_1 = relay.abs(relay_1)" in text


@pytest.mark.parametrize(
    "value",
    [None, True, 1, -2.5, "a'b", (), (1,), (1, (2, 3)), [1, [2]], {"a": (1,)}, float("inf")],
)
def test_literals_are_read_back(value: Any) -> None:
    assert eval(literal(value)) == value


def test_literals_of_numpy_and_of_what_has_none() -> None:
    assert literal(np.float32(0.5)) == "0.5"
    assert literal(np.array([1, 2], "int32")) == "np.array([1, 2], 'int32')"
    assert literal(range(2)) == "[0, 1]"
    with pytest.raises(SourceError, match="object has no literal"):
        literal(object())
