"""Tests of graphs written as TVM source."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pytest_byoc
from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.generation import data, systematic
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.structures import STRUCTURES, Unavailable, Vocabulary
from pytest_byoc.operators import OPERATORS
from pytest_byoc.record.source import SourceError, literal, source
from pytest_byoc.report.bundle import storable

from .conftest import PYTHON, several_outputs


@pytest.mark.parametrize("ir", ("relay", "relax"))
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_can_be_written_as_tvm_code(operator: str, ir: str) -> None:
    if ir not in OPERATORS[operator].irs():
        pytest.skip(f"{operator} is not in {ir}")
    for case in systematic.cases([operator], ir):
        text = "\n".join(source(case.graph, ir))
        compile(text, case.id, "exec")
        assert "object at" not in text, text


def test_relay_source_of_a_graph() -> None:
    assert source(several_outputs(), "relay") == [
        "x0 = relay.var('x0', shape=(2, 6), dtype='float32')",
        "c0 = relay.const(tvm.nd.array(data['constant.c0']))",
        "v0 = relay.add(x0, c0)",
        "v1 = relay.nn.relu(v0)",
        "t0 = relay.split(v1, [2], axis=1).astuple()",
        "v2 = relay.TupleGetItem(t0, 0)",
        "v4 = relay.tanh(v2)",
        # As in the workers, each use of a result of several is a separate expression.
        "v3 = relay.TupleGetItem(t0, 1)",
        "v3_1 = relay.TupleGetItem(t0, 1)",
        "body = relay.Tuple([v4, v3, v3_1, x0, c0])",
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


def test_variable_names_are_valid_and_unique() -> None:
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
def test_literals_evaluate_to_their_value(value: Any) -> None:
    assert eval(literal(value)) == value


def test_literals_of_numpy_and_of_objects_without_a_literal() -> None:
    assert literal(np.float32(0.5)) == "0.5"
    assert literal(np.array([1, 2], "int32")) == "np.array([1, 2], 'int32')"
    assert literal(range(2)) == "[0, 1]"
    with pytest.raises(SourceError, match="object has no literal"):
        literal(object())


#: Compares the modules that the written lines build with those of the workers' lowering.
COMPARE = """
import importlib, json, sys
import numpy as np
import tvm
from pytest_byoc.core.graph import Graph
from pytest_byoc.core.protocol import Bfloat16

ir, folder = sys.argv[1:]
lowering = importlib.import_module("pytest_byoc.ir." + ir)
arrays = np.load(folder + "/data.npz")

def brain(bits):
    if ir == "relay":
        return bits.view(Bfloat16)
    import ml_dtypes
    return bits.view(ml_dtypes.bfloat16)

def tensor(bits, dtype):
    if ir == "relax":
        return tvm.runtime.tensor(brain(bits))
    return tvm.nd.empty(bits.shape, dtype).copyfrom(bits)

def made(lower):
    try:
        module = lower()
    except Exception as e:  # of what this TVM has no such form of
        return None, type(e).__name__
    return module, module.astext(show_meta_data=False) if ir == "relay" else module.script()

def executed(lines, data):
    names = {"tvm": tvm, "np": np, "tensor": tensor, "data": data, ir: importlib.import_module("tvm." + ir)}
    exec("\\n".join(lines), names)
    return names["module"]

lowered = 0
for name, row in json.load(open(folder + "/rows.json")).items():
    graph = Graph.from_dict(row["graph"])
    data = {"constant." + s.name: arrays[name + "." + s.name] for s in graph.constants}
    own = {s.name: data["constant." + s.name] for s in graph.constants}
    own.update((s.name, brain(own[s.name])) for s in graph.constants if s.type.dtype == "bfloat16")
    module, text = made(lambda: lowering.lower(graph, own)[0])
    other, other_text = made(lambda: executed(row["lines"], data))
    # Structural equality passes over what is shared; the text numbers it.
    if text != other_text:
        sys.exit("\\n".join([name, text, other_text, *row["lines"]]))
    if module is not None:
        tvm.ir.assert_structural_equal(module, other, map_free_vars=True)
        lowered += 1
print(lowered, "compared")
"""


def sampled(ir: str) -> dict[str, Graph]:
    """Returns all structures that the IR has operators for, and three cases of each operator."""
    here = [name for name, operator in OPERATORS.items() if ir in operator.irs()]
    graphs = {}
    for name, make in STRUCTURES.items():
        with suppress(Unavailable):
            graphs[f"structure {name}"] = make(Builder(seed=1), Vocabulary(frozenset(here)))
    for operator in here:
        cases = systematic.cases([operator], ir)
        graphs.update((case.id, case.graph) for case in (cases[0], cases[len(cases) // 2], cases[-1]))
    return {name: graph for name, graph in graphs.items() if graph.elements < 100_000}


def test_the_source_builds_the_modules_that_workers_lower(tmp_path: Path, ir: str) -> None:
    graphs = sampled(ir)
    assert any(len(node.outputs) > 1 for graph in graphs.values() for node in graph.nodes)
    rows = {name: {"graph": g.to_dict(), "lines": source(g, ir)} for name, g in graphs.items()}
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    arrays = {
        f"{name}.{constant}": storable(array)
        for name, graph in graphs.items() for constant, array in data.constants(graph).items()
    }
    np.savez(tmp_path / "data.npz", **arrays)
    environment = {**os.environ, "PYTHONPATH": str(Path(pytest_byoc.__file__).parents[1])}
    command = [PYTHON, "-c", COMPARE, ir, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    # Nearly all are compared; each version of TVM lacks a few operators.
    assert int(done.stdout.split()[0]) > 0.9 * len(graphs)
