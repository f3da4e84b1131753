"""Tests of whole models with open extents, and of weights that come beside a module."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from fixtures.faults import FAULTS, apply
from pytest_byoc.worker.model_import import _sizes

from .conftest import PYTHON


def value(name: str, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


@pytest.mark.once
def test_axes_that_are_sums_follow_the_others() -> None:
    inputs = [value("mask", "batch", "past + tokens", "next+1"), value("past", 2, "past"),
              value("tokens", "tokens", "next")]
    shapes, chosen = _sizes(inputs, {}, 1, 7)
    assert shapes == {"mask": [1, 8, 8], "past": [2, 7], "tokens": [1, 7]}
    assert chosen == {"batch": 1, "past": 7, "tokens": 1, "next": 7, "past + tokens": 8, "next+1": 8}
    assert _sizes(inputs, {"past": [2, 5]}, 1, 7)[0]["mask"] == [1, 8, 8]


def open_model(path: Path) -> None:
    """Saves a model whose first axis is open: a ReLU, a function that TVM runs itself, a difference."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Floor", ["a"], ["b"]),
        helper.make_node("Sub", ["b", "a"], ["c"]), helper.make_node("Tanh", ["c"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "open", [value("x", "n", 5)], [value("y", "n", 5)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))


def session(pytester: pytest.Pytester, ir: str, target: str, model: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(
        f"--byoc-target={target}", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "--byoc-report=out",
        f"--byoc-model={model}", "-p", "no:cacheprovider", timeout=300,
    )


def test_a_model_is_compiled_with_its_axes_open(pytester: pytest.Pytester, ir: str) -> None:
    open_model(pytester.path / "open.onnx")
    result = session(pytester, ir, "example_c", "open.onnx")
    result.assert_outcomes(passed=1)
    how = {
        "relax": "also compiled with open extents, and run with these and with n=3",
        "relay": "not compiled with open extents: Relay's frontend is given fixed extents",
    }[ir]
    result.stdout.fnmatch_lines([f"  extents that were open: n = 1; {how}"])
    (model,) = json.loads(pytester.path.joinpath("out", "report.json").read_text())["models"]
    assert (model["extents"], model["open_extents"]) == ({"n": 1}, how)


@pytest.mark.once
def test_a_fault_with_open_extents_alone_is_narrowed_to_a_region(pytester: pytest.Pytester) -> None:
    open_model(pytester.path / "open.onnx")
    target = apply(FAULTS["open_extent_of_first_call"], pytester.path) / "__init__.py"
    result = session(pytester, "relax", f"{target}:target", "open.onnx")
    result.assert_outcomes(failed=1)
    (failure,) = json.loads(pytester.path.joinpath("out", "report.json").read_text())["failures"]
    assert (failure["check"], failure["case"]) == ("dynamic", "model[open]")
    assert len(json.loads(Path(failure["graph"]).read_text())["nodes"]) == 1


_WEIGHTS = """\
import numpy as np
import tvm
from tvm import relax

def _module(attached):
    tensor = getattr(relax, "TensorStructInfo", None) or relax.TensorType
    x, w = relax.Var("x", tensor([2, 3], "float32")), relax.Var("w", tensor([2, 3], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.add(relax.op.nn.relu(x), w))
        builder.emit_func_output(out)
    module, weights = builder.get(), [tvm.runtime.tensor(np.ones((2, 3), "float32"))]
    if not attached:
        return module, {"main": weights}
    module["main"] = module["main"].with_attr("params", weights)
    return module

def listed():
    return _module(False)

def attached():
    return _module(True)
"""


@pytest.mark.once
@pytest.mark.parametrize("function", ["listed", "attached"])
def test_weights_as_relaxs_frontends_give_them(pytester: pytest.Pytester, function: str) -> None:
    pytester.path.joinpath("made.py").write_text(_WEIGHTS)
    result = session(pytester, "relax", "example_c", f"made.py:{function}")
    result.assert_outcomes(passed=1)
    # The weights are no input: 24 bytes go in and 24 come out.
    result.stdout.fnmatch_lines([
        f"model[[]{function}[]]: pass; 2 of 2 operators offloaded, in 1 subgraph; 48B cross*"
    ])
