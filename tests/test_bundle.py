"""The bundle of a failure: TVM source, ONNX model, arrays, script. Only what runs a script needs TVM."""

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
from onnx.reference import ReferenceEvaluator

from pytest_byoc.evidence import Evidence, JobReport, compare
from pytest_byoc.generation import data, systematic
from pytest_byoc.generation.builder import Builder
from pytest_byoc.graph import Graph, Node, TensorType
from pytest_byoc.operators import OPERATORS
from pytest_byoc.oracle import evaluate
from pytest_byoc.outcome import WRONG_RESULT, Verdict
from pytest_byoc.report import bundle, to_onnx
from pytest_byoc.report.source import SourceError, literal, source

from .conftest import NEW_ONNX, PYTHON

IRS = ("relay", "relax")
DECLARATION = {
    "name": "mine", "reference": "mine.codegen:Target", "ir": "relay", "python": "/usr/bin/python3",
    "libraries": ["/lib/one.so"], "sys_path": ["/home/me"], "names": [],
    "options": {"runtime_libraries": ["/lib/two.so"], "ir": "relay"},
}


def several() -> Graph:
    """Two results of one node, one value twice, an input and a constant among the outputs."""
    b = Builder(seed=3)
    x = b.input(TensorType((2, 6), "float32"))
    c = b.constant(TensorType((), "float32"))
    y = b.simple("nn.relu", b.node("add", [x, c], {})[0])
    p, q = b.node("split", [y], {"axis": 1, "indices_or_sections": (2,)})
    return b.graph(b.simple("tanh", p), q, q, x, c)


def verdict(graph: Graph, reference_wrong: bool = False, kept: bool = True) -> Verdict:
    """As if LLVM and the target had returned what was expected."""
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


# --- source --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ir", IRS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_can_be_written_as_tvm_code(operator: str, ir: str) -> None:
    if ir not in OPERATORS[operator].irs():
        pytest.skip(f"{operator} is not in {ir}")
    for case in systematic.cases([operator], ir):
        text = "\n".join(source(case.graph, ir))
        compile(text, case.id, "exec")
        assert "object at" not in text, text


def test_relay_source_reads_like_relay() -> None:
    assert source(several(), "relay") == [
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


# --- ONNX ----------------------------------------------------------------------------------------

#: Operators that ONNX has for float types and 8-bit integers alone.
FLOAT_ALONE = (
    *("nn.conv2d", "nn.max_pool2d", "nn.global_max_pool2d"),
    *("nn.avg_pool2d", "nn.global_avg_pool2d"),
)
#: Dtypes that most of ONNX's operators take; of the others it is asked, and may refuse.
COMMON = ("float32", "float64", "float16", "int32")


#: What ONNX's evaluator gets wrong, by what comes of it.
EVALUATED_WRONG: dict[str, type[Exception]] = {
    # The logarithm of a softmax that has underflowed is -inf there.
    "nn.log_softmax[float32-large_values]": AssertionError,
    # NaN stands for padding there.
    **dict.fromkeys(
        (f"nn.avg_pool2d[{v}]" for v in ("float32-nan", "float64-special_values", "float16-special_values")),
        AssertionError,
    ),
    "nn.global_avg_pool2d[float32-empty]": ZeroDivisionError,
    "nn.batch_flatten[float32-empty]": ValueError,
    **({} if NEW_ONNX else {"nn.conv2d[float32-empty]": ValueError}),
}


def check_model(graph: Graph) -> None:
    """The model's values, by ONNX's reference evaluator, are those of our kernels."""
    constants, inputs = data.constants(graph), data.inputs(graph, 0)
    model = to_onnx.to_model(graph, constants)
    actual = ReferenceEvaluator(model).run(None, inputs)
    assert isinstance(actual, list)
    expected = evaluate(graph, {**constants, **inputs})
    for name, array, bounded in zip(graph.outputs, actual, expected):
        assert str(graph.type_of(name)) == str(TensorType(array.shape, str(array.dtype)))
        assert not compare(array, bounded).outside.any(), graph.to_json()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("operator", to_onnx.MAPPING)
def test_onnx_computes_what_the_kernels_compute(operator: str) -> None:
    for case in systematic.cases([operator], None):
        types = [s.type for s in case.graph.sources()] + [t for n in case.graph.nodes for t in n.types]
        if any(t.dtype not in COMMON for t in types):
            try:
                to_onnx.to_model(case.graph, data.constants(case.graph))
            except to_onnx.NotExpressible:
                continue
            if not NEW_ONNX:
                continue  # its evaluator computes few operators with these
        if operator in FLOAT_ALONE and case.graph.inputs[0].type.dtype == "int32":
            with pytest.raises(to_onnx.NotExpressible, match=r"ONNX has no .* of int32"):
                check_model(case.graph)
        elif case.id in EVALUATED_WRONG:
            with pytest.raises(EVALUATED_WRONG[case.id]):
                check_model(case.graph)
        else:
            check_model(case.graph)


def test_operators_without_an_onnx_mapping_are_said_to_have_none() -> None:
    assert set(to_onnx.MAPPING) <= set(OPERATORS)
    for name in sorted(set(OPERATORS) - set(to_onnx.MAPPING)):
        graph = systematic.default_case(name, OPERATORS[name].dtypes[0]).graph
        with pytest.raises(to_onnx.NotExpressible, match=f"no ONNX operator for {name}"):
            to_onnx.to_model(graph, data.constants(graph))


def test_onnx_outputs_may_be_inputs_constants_and_repeated() -> None:
    graph = several()
    check_model(graph)
    model = to_onnx.to_model(graph, data.constants(graph))
    names = ["v4", "v3", "output_2", "output_3", "output_4"]
    assert [o.name for o in model.graph.output] == names
    assert model.graph.initializer[0].name == "c0"


def test_onnx_says_what_it_cannot_express() -> None:
    t = TensorType((2,), "float32")
    b = Builder()
    x = b.input(t)
    graph = Graph(tuple(b.inputs), (), (Node("no.such", (x,), {}, ("v0",), (t,)),), ("v0",))
    with pytest.raises(to_onnx.NotExpressible, match=r"no ONNX operator for no\.such"):
        to_onnx.to_model(graph, {})


# --- the folder ----------------------------------------------------------------------------------


def test_all_files_are_written_and_readable(tmp_path: Path) -> None:
    graph = several()
    written = write(tmp_path / "a" / "b", verdict(graph))
    folder = tmp_path / "a" / "b"
    assert sorted(written) == sorted(p.name for p in folder.iterdir())
    assert set(written) == {"graph.json", "failure.txt", "data.npz", "reproduce.py", "graph.onnx"}
    assert Graph.from_json((folder / "graph.json").read_text()) == graph
    assert (folder / "failure.txt").read_text() == "it fails\n"
    onnx.checker.check_model(onnx.load(folder / "graph.onnx"))


def test_the_arrays_have_the_documented_names(tmp_path: Path) -> None:
    graph = several()
    write(tmp_path, verdict(graph))
    with np.load(tmp_path / "data.npz", allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    n = range(len(graph.outputs))
    names = {"A.x0", "B.x0", "constant.c0"}
    for label in "AB":
        for kind in ("expected", "bound", "ambiguous", "judged", "llvm", "target.graph"):
            names |= {f"{kind}.{label}.{i}" for i in n}
    names |= {f"target.graph.A_again.{i}" for i in n} | {f"loaded.graph.A.{i}" for i in n}
    assert set(found) == names
    assert found["constant.c0"].shape == ()
    assert found["expected.A.0"].dtype == np.float64
    assert found["judged.A.0"].all()
    # The rule that reproduce.py applies with them is that of the tool.
    expected = evaluate(graph, {**data.constants(graph), **data.inputs(graph, 0)})[0]
    for step in (0.5, 1.5):
        actual = expected.value + step * found["bound.A.0"]
        outside = ~(np.abs(actual - found["expected.A.0"]) <= found["bound.A.0"])
        assert (outside == compare(actual, expected).outside).all()


def test_the_bound_of_a_float64_output_is_doubled_as_in_the_comparison(tmp_path: Path) -> None:
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
    """The names in the script, without TVM. check(function, …): the sentence it fails with."""
    write(tmp_path, verdict(several()))
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


def test_the_script_holds_outputs_to_the_bound(script: Any) -> None:
    good, check = script["good"], script["check"]
    assert check("check_bound", good, "A", "here") is None
    wrong = [g.copy() for g in good]
    wrong[1][1, 2] += 1
    said = check("check_bound", wrong, "A", "here")
    assert said.startswith("output v3 here is ") and " at [1, 2], expected " in said
    assert "expected 5" in check("check_bound", good[1:], "A", "here")
    double, nan = good[0].astype("float64"), np.full_like(good[0], np.nan)
    assert "is float64 " in check("check_bound", [double, *good[1:]], "A", "here")
    assert "is nan at [0, 0]" in check("check_bound", [nan, *good[1:]], "A", "here")


def test_the_script_finds_unwritten_elements(script: Any) -> None:
    holes = [g.copy() for g in script["good"]]
    holes[0].view(np.uint32)[1, 0] = 0x7F7F7F7F
    said = script["check"]("check_bound", holes, "A", "here")
    assert said == "output v4 has 1 unwritten elements here, the first at [1, 0]."


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


def test_what_llvm_gets_wrong_alike_is_passed_over(tmp_path: Path, script: Any) -> None:
    write(tmp_path, verdict(several(), reference_wrong=True))
    script["data"] = np.load(tmp_path / "data.npz")
    check = script["check"]
    assert check("check_bound", script["good"], "A", "here") is None
    assert check("check_bound", [g + np.float32(1) for g in script["good"]], "A", "here") is None
    assert check("check_bound", [g + np.float32(2) for g in script["good"]], "A", "here")


@pytest.mark.parametrize("ir", IRS)
def test_the_script_is_python_3_8_and_needs_none_of_ours(tmp_path: Path, ir: str) -> None:
    assert "reproduce.py" in write(tmp_path, verdict(several()), ir, 'says """this""" \\x')
    text = (tmp_path / "reproduce.py").read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=(3, 8))
    compile(tree, "reproduce.py", "exec")
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {str(n.module) for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert not any(name.startswith(("pytest", "reference_kernels")) for name in imported)
    assert "importlib.import_module('mine.codegen').Target" in text
    assert "/lib/one.so" in text and "/lib/two.so" in text and "/home/me" in text
    assert "says '''this''' \\x" in (ast.get_docstring(tree) or "")
    assert "/usr/bin/python3 reproduce.py" in (ast.get_docstring(tree) or "")
    assert len(text.splitlines()) <= 320


@pytest.mark.parametrize("ir", IRS)
def test_a_target_tvm_knows_is_looked_up_by_name(tmp_path: Path, ir: str) -> None:
    write(tmp_path, verdict(several()), ir, reference=None, name="dnnl")
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
        write(tmp_path / "bundle", verdict(several()), reference=f"{given}:partition")
        text = (tmp_path / "bundle" / "reproduce.py").read_text(encoding="utf-8")
        assert f"sys.path.insert(0, {str(tmp_path)!r})" in text
        assert f"importlib.import_module({name!r}).partition" in text


def test_a_bundle_is_written_even_where_onnx_and_the_ir_have_no_words(tmp_path: Path) -> None:
    t = TensorType((2,), "float32")
    v = verdict(several())
    node = Node("no.such", ("x0",), {}, ("v0",), (t,))
    graph = Graph(v.graph.inputs, (), (node,), ("x0",))
    (tmp_path / "graph.onnx").write_bytes(b"of an earlier run")
    v = Verdict(graph, WRONG_RESULT, evidence=v.evidence)
    assert write(tmp_path, v) == ["graph.json", "failure.txt", "data.npz"]
    text = (tmp_path / "failure.txt").read_text()
    assert "There is no graph.onnx: There is no ONNX operator for no.such here." in text
    assert "There is no reproduce.py: operator no.such has no lowering to relay" in text
    assert not (tmp_path / "graph.onnx").exists()


def test_without_evidence_graph_and_text_remain(tmp_path: Path) -> None:
    assert write(tmp_path, verdict(several(), kept=False)) == ["graph.json", "failure.txt"]
    assert json.loads((tmp_path / "graph.json").read_text())["format"]
    assert "nothing was kept of the examination" in (tmp_path / "failure.txt").read_text()


# --- bfloat16 ------------------------------------------------------------------------------------


def brain() -> Graph:
    b = Builder(seed=4)
    t = TensorType((3, 5), "bfloat16")
    x, c = b.input(t), b.constant(t)
    return b.graph(b.node("add", [b.simple("nn.relu", x), c], {})[0])


def test_bfloat16_is_kept_as_bits(tmp_path: Path) -> None:
    graph = brain()
    write(tmp_path, verdict(graph))
    with np.load(tmp_path / "data.npz", allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    for name in ("A.x0", "constant.c0", "llvm.A.0", "target.graph.A.0", "loaded.graph.A.0"):
        assert found[name].dtype == np.uint16, name
    bits = found["A.x0"].astype(np.uint32) << 16
    np.testing.assert_array_equal(bits.view(np.float32), data.inputs(graph, 0)["x0"].astype(np.float32))
    text = (tmp_path / "reproduce.py").read_text()
    assert "hold its bits" in text and "INPUTS = {'x0': 'bfloat16'}" in text
    write(tmp_path, verdict(several()))
    assert "hold its bits" not in (tmp_path / "reproduce.py").read_text()


def test_a_graph_of_bfloat16_is_reproduced(tmp_path: Path, ir: str) -> None:
    """In the workers' interpreter, which may have no ml_dtypes; the target leaves all to TVM."""
    (tmp_path / "whole.py").write_text("def partition(mod):\n    return mod\n")
    folder = tmp_path / "bundle"
    names = {"python": PYTHON, "sys_path": [], "libraries": [], "options": {}}
    write(folder, verdict(brain()), ir, reference=f"{tmp_path / 'whole.py'}:partition", **names)

    def status() -> tuple[int, str]:
        command = [PYTHON, str(folder / "reproduce.py")]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment)
        return done.returncode, done.stdout + done.stderr

    found, text = status()
    assert found == 0, text
    arrays = dict(np.load(folder / "data.npz"))
    arrays["expected.A.0"][1, 2] += 0.5
    del arrays["llvm.A.0"]  # it would excuse the target
    np.savez(folder / "data.npz", **arrays)
    found, text = status()
    assert found == 1 and "FAILED: output v1 in the first run" in text and " at [1, 2]" in text, text
