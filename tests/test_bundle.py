"""Tests of a failure's bundle: its files and its script. Only the tests that run a script need
TVM."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from pytest_byoc.core.finding import WRONG_RESULT
from pytest_byoc.core.graph import Graph, Node, TensorType
from pytest_byoc.core.job_report import JobReport
from pytest_byoc.evidence.comparison import compare
from pytest_byoc.evidence.evidence import Evidence
from pytest_byoc.examination.outcome import Verdict
from pytest_byoc.generation import data
from pytest_byoc.generation.builder import Builder
from pytest_byoc.oracle.evaluation import evaluate
from pytest_byoc.report import bundle

from .conftest import PYTHON, several_outputs

IRS = ("relay", "relax")
DECLARATION = {
    "name": "mine", "reference": "mine.codegen:Target", "ir": "relay", "python": "/usr/bin/python3",
    "libraries": ["/lib/one.so"], "sys_path": ["/home/me"], "names": [],
    "options": {"runtime_libraries": ["/lib/two.so"], "ir": "relay"},
}


def verdict(graph: Graph, reference_wrong: bool = False, kept: bool = True) -> Verdict:
    """Returns a verdict as if LLVM and the target had returned the expected values."""
    if not kept:
        return Verdict(graph, WRONG_RESULT)
    inputs, constants = [data.inputs(graph, 0), data.inputs(graph, 1)], data.constants(graph)
    expected = [evaluate(graph, {**constants, **i}) for i in inputs]
    outputs = [[b.value.astype(data.numpy_dtype(b.dtype)) for b in e] for e in expected]

    def fact(key: str, value: Any, executor: str = "graph") -> dict[str, Any]:
        return {"fact": key, "executor": executor, "value": value}

    target = [fact("outputs", {"set": 0, "arrays": outputs[0]}), fact("rerun_other", outputs[1])]
    target += [fact("rerun_first", outputs[0])]
    llvm = [[np.asarray(a + a.dtype.type(reference_wrong)) for a in o] for o in outputs]
    reference = [fact("outputs", {"set": i, "arrays": o}) for i, o in enumerate(llvm)]
    evidence = Evidence(
        graph, inputs, constants, expected, JobReport(target), JobReport(reference),
        JobReport([fact("reloaded", outputs[0])]),
    )
    return Verdict(graph, WRONG_RESULT, evidence=evidence)


def write(
    folder: Path, v: Verdict, ir: str = "relay", text: str = "it fails", **more: Any
) -> list[str]:
    declaration: Mapping[str, Any] = {**DECLARATION, **more}
    executors = ["graph", "vm"] if ir == "relay" else ["vm"]
    versions = {"tvm": "0.16", "python": "3.8"}
    return bundle.write(folder, v, text, declaration, ir, executors, 3, 30.0, versions)


def test_all_files_are_written_and_readable(tmp_path: Path) -> None:
    graph = several_outputs()
    written = write(tmp_path / "a" / "b", verdict(graph))
    folder = tmp_path / "a" / "b"
    assert sorted(written) == sorted(p.name for p in folder.iterdir())
    assert set(written) == {"graph.json", "failure.txt", "data.npz", "reproduce.py", "graph.onnx"}
    assert Graph.from_json((folder / "graph.json").read_text()) == graph
    assert (folder / "failure.txt").read_text() == "it fails\n"
    onnx.checker.check_model(onnx.load(folder / "graph.onnx"))


def test_the_arrays_have_the_documented_names(tmp_path: Path) -> None:
    graph = several_outputs()
    write(tmp_path, verdict(graph))
    with np.load(tmp_path / "data.npz", allow_pickle=False) as arrays:
        by_name = {name: arrays[name] for name in arrays.files}
    n = range(len(graph.outputs))
    names = {"A.x0", "B.x0", "constant.c0"}
    for label in "AB":
        for kind in ("expected", "bound", "ambiguous", "judged", "llvm", "target.graph"):
            names |= {f"{kind}.{label}.{i}" for i in n}
    names |= {f"target.graph.A_again.{i}" for i in n} | {f"loaded.graph.A.{i}" for i in n}
    assert set(by_name) == names
    assert by_name["constant.c0"].shape == ()
    assert by_name["expected.A.0"].dtype == np.float64
    assert by_name["judged.A.0"].all()
    # reproduce.py applies the same rule to these arrays as the plugin.
    expected = evaluate(graph, {**data.constants(graph), **data.inputs(graph, 0)})[0]
    for step in (0.5, 1.5):
        actual = expected.value + step * by_name["bound.A.0"]
        outside = ~(np.abs(actual - by_name["expected.A.0"]) <= by_name["bound.A.0"])
        assert (outside == compare(actual, expected).outside).all()


def test_a_number_is_asked_for_where_an_average_may_overflow_and_llvm_has_one(tmp_path: Path) -> None:
    b = Builder()
    x = b.input(TensorType((2, 3), "float16"), data=[60000.0, 60000.0, -60000.0, 1.0, 2.0, 3.0])
    graph = b.graph(b.simple("mean", x, axis=(1,), keepdims=False, exclude=False))
    write(tmp_path, verdict(graph))
    with np.load(tmp_path / "data.npz") as arrays:
        assert arrays["ambiguous.A.0"].any() and arrays["judged.A.0"].all()
        assert np.isfinite(arrays["llvm.A.0"]).all() and np.isfinite(arrays["bound.A.0"]).all()


def test_the_saved_bound_of_a_float64_output_is_doubled(tmp_path: Path) -> None:
    b = Builder(seed=2)
    graph = b.graph(b.simple("exp", b.input(TensorType((5,), "float64"))))
    write(tmp_path, verdict(graph))
    expected = evaluate(graph, data.inputs(graph, 0))[0]
    with np.load(tmp_path / "data.npz") as arrays:
        bound = arrays["bound.A.0"]
    assert (bound == 2 * expected.error).all()
    assert not compare(expected.value + 0.9 * bound, expected).outside.any()
    assert compare(expected.value + 1.5 * bound, expected).outside.all()


@pytest.fixture
def script(tmp_path: Path) -> Any:
    """Returns the script's namespace, run without TVM; `check(name, ...)` returns the message with
    which it fails."""
    write(tmp_path, verdict(several_outputs()))
    path = tmp_path / "reproduce.py"
    namespace: dict[str, Any] = {"__file__": str(path), "__name__": "reproduce"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)

    class Failed(Exception):
        pass

    def fail(text: str, *values: Any) -> None:
        raise Failed(text % values)

    namespace["fail"] = fail
    data_ = namespace["data"]
    namespace["good"] = [data_[f"target.graph.A.{i}"] for i in range(5)]

    def check(name: str, *args: Any) -> str | None:
        try:
            namespace[name](*args)
        except Failed as e:
            return str(e)
        return None

    namespace["check"] = check
    return namespace


def test_the_script_checks_outputs_against_the_bound(script: Any) -> None:
    good, check = script["good"], script["check"]
    assert check("check_bound", good, "A", "here") is None
    wrong = [g.copy() for g in good]
    wrong[1][1, 2] += 1
    message = check("check_bound", wrong, "A", "here")
    assert message.startswith("output v3 here is ") and " at [1, 2], expected " in message
    assert "expected 5" in check("check_bound", good[1:], "A", "here")
    double, nan = good[0].astype("float64"), np.full_like(good[0], np.nan)
    assert "is float64 " in check("check_bound", [double, *good[1:]], "A", "here")
    assert "is nan at [0, 0]" in check("check_bound", [nan, *good[1:]], "A", "here")


def test_the_script_finds_unwritten_elements(script: Any) -> None:
    holes = [g.copy() for g in script["good"]]
    holes[0].view(np.uint32)[1, 0] = 0x7F7F7F7F
    message = script["check"]("check_bound", holes, "A", "here")
    assert message == "output v4 has 1 unwritten elements here, the first at [1, 0]."


def test_the_script_compares_runs_bit_by_bit(script: Any) -> None:
    good, check = script["good"], script["check"]
    assert check("check_same", good, good, "again") is None
    other = [g.copy() for g in good]
    other[4][...] = np.nextafter(other[4], np.float32(9))
    assert "output c0 again is " in check("check_same", good, other, "again")
    zeros = [[np.zeros((2, 2), "float32") * sign] * 5 for sign in (1, -1)]
    assert check("check_same", zeros[0], zeros[1], "again")
    nans = [[np.array([v], "uint32").view("float32")] * 5 for v in (0x7FC00000, 0x7FC00001)]
    assert check("check_same", nans[0], nans[1], "again") is None


def test_the_script_ignores_errors_that_llvm_shares(tmp_path: Path, script: Any) -> None:
    write(tmp_path, verdict(several_outputs(), reference_wrong=True))
    script["data"] = np.load(tmp_path / "data.npz")
    check = script["check"]
    assert check("check_bound", script["good"], "A", "here") is None
    assert check("check_bound", [g + np.float32(1) for g in script["good"]], "A", "here") is None
    assert check("check_bound", [g + np.float32(2) for g in script["good"]], "A", "here")


@pytest.mark.parametrize("ir", IRS)
def test_the_script_runs_on_python_3_8_without_pytest_byoc(tmp_path: Path, ir: str) -> None:
    assert "reproduce.py" in write(tmp_path, verdict(several_outputs()), ir, 'says """this""" \\x')
    text = (tmp_path / "reproduce.py").read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=(3, 8))
    compile(tree, "reproduce.py", "exec")
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {str(n.module) for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert not any(name.startswith("pytest") for name in imported)
    assert "importlib.import_module('mine.codegen').Target" in text
    assert "/lib/one.so" in text and "/lib/two.so" in text and "/home/me" in text
    assert "says '''this''' \\x" in (ast.get_docstring(tree) or "")
    assert "/usr/bin/python3 reproduce.py" in (ast.get_docstring(tree) or "")
    assert len(text.splitlines()) <= 397


@pytest.mark.parametrize("ir", IRS)
def test_the_script_looks_up_tvms_own_targets_by_name(tmp_path: Path, ir: str) -> None:
    write(tmp_path, verdict(several_outputs()), ir, reference=None, name="dnnl")
    text = (tmp_path / "reproduce.py").read_text(encoding="utf-8")
    compile(text, "reproduce.py", "exec")
    assert "name = 'dnnl'" in text and f"{ir}.ext." in text


def test_a_file_inside_packages_is_imported_by_its_full_name(tmp_path: Path) -> None:
    package = tmp_path / "outer" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "code.py").touch()
    for given, name in ((package / "code.py", "outer.inner.code"), (package, "outer.inner")):
        write(tmp_path / "bundle", verdict(several_outputs()), reference=f"{given}:partition")
        text = (tmp_path / "bundle" / "reproduce.py").read_text(encoding="utf-8")
        assert f"sys.path.insert(0, {str(tmp_path)!r})" in text
        assert f"importlib.import_module({name!r}).partition" in text


def test_a_bundle_is_written_for_an_operator_that_onnx_and_the_ir_lack(tmp_path: Path) -> None:
    t = TensorType((2,), "float32")
    v = verdict(several_outputs())
    node = Node("no.such", ("x0",), {}, ("v0",), (t,))
    graph = Graph(v.graph.inputs, (), (node,), ("x0",))
    (tmp_path / "graph.onnx").write_bytes(b"of an earlier run")
    v = Verdict(graph, WRONG_RESULT, evidence=v.evidence)
    assert write(tmp_path, v) == ["graph.json", "failure.txt", "data.npz"]
    text = (tmp_path / "failure.txt").read_text()
    assert "There is no graph.onnx: pytest-byoc does not write no.such as ONNX." in text
    assert "There is no reproduce.py: operator no.such has no lowering to relay" in text
    assert not (tmp_path / "graph.onnx").exists()


def test_without_evidence_the_bundle_has_graph_and_text(tmp_path: Path) -> None:
    assert write(tmp_path, verdict(several_outputs(), kept=False)) == ["graph.json", "failure.txt"]
    assert json.loads((tmp_path / "graph.json").read_text())["format"]


# --- bfloat16 ------------------------------------------------------------------------------------


def brain() -> Graph:
    b = Builder(seed=4)
    t = TensorType((3, 5), "bfloat16")
    x, c = b.input(t), b.constant(t)
    return b.graph(b.node("add", [b.simple("nn.relu", x), c], {})[0])


def test_bfloat16_is_saved_as_bits(tmp_path: Path) -> None:
    graph = brain()
    write(tmp_path, verdict(graph))
    with np.load(tmp_path / "data.npz", allow_pickle=False) as arrays:
        by_name = {name: arrays[name] for name in arrays.files}
    for name in ("A.x0", "constant.c0", "llvm.A.0", "target.graph.A.0", "loaded.graph.A.0"):
        assert by_name[name].dtype == np.uint16, name
    bits = by_name["A.x0"].astype(np.uint32) << 16
    np.testing.assert_array_equal(bits.view(np.float32), data.inputs(graph, 0)["x0"].astype(np.float32))
    text = (tmp_path / "reproduce.py").read_text()
    assert "hold its bits" in text and "INPUTS = {'x0': 'bfloat16'}" in text
    write(tmp_path, verdict(several_outputs()))
    assert "hold its bits" not in (tmp_path / "reproduce.py").read_text()


def test_a_bfloat16_graph_is_reproduced(tmp_path: Path, ir: str) -> None:
    """Runs in the workers' interpreter, which may lack ml_dtypes; the target offloads nothing."""
    (tmp_path / "whole.py").write_text("def partition(mod):\n    return mod\n")
    folder = tmp_path / "bundle"
    names = {"python": PYTHON, "sys_path": [], "libraries": [], "options": {}}
    write(folder, verdict(brain()), ir, reference=f"{tmp_path / 'whole.py'}:partition", **names)

    def status() -> tuple[int, str]:
        command = [PYTHON, str(folder / "reproduce.py")]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment)
        return done.returncode, done.stdout + done.stderr

    code, text = status()
    assert code == 0, text
    arrays = dict(np.load(folder / "data.npz"))
    arrays["expected.A.0"][1, 2] += 0.5
    del arrays["llvm.A.0"]  # it would excuse the target
    np.savez(folder / "data.npz", **arrays)
    code, text = status()
    assert code == 1 and "FAILED: output v1 in the first run" in text and " at [1, 2]" in text, text
