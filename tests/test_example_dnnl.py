"""Tests of ``example_dnnl``: conformance at smoke, artifacts in a process of their own, a library that
is missing, of another version or without a function, and planted mistakes."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from fixtures.faults import Fault, Patch, apply

from .conftest import PYTHON

#: Compiles a dense layer with relu for the file given, and prints the result for ones.
BUILD = """\
import sys
import numpy as np
from pytest_byoc.examples.example_dnnl import target

data, weight = np.ones((2, 3), "float32"), np.arange(12, dtype="float32").reshape(4, 3) - 5
try:
    from tvm import relay
except ImportError:
    import tvm
    from tvm import relax

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(x, relax.const(weight.T.copy())))
            y = builder.emit_output(builder.emit(relax.op.nn.relu(y)))
        builder.emit_func_output(y)
    partitioned = relax.transform.RunCodegen()(target.partition(builder.get()))
    built = tvm.compile(partitioned, target="llvm")
else:
    import tvm

    x = relay.var("x", shape=(2, 3))
    y = relay.nn.relu(relay.nn.dense(x, relay.const(weight)))
    module = tvm.IRModule.from_expr(relay.Function([x], y))
    built = relay.build(target.partition(module), target="llvm -mtriple=x86_64-linux-gnu")
built.export_library(sys.argv[1], **target.export_options)
"""
#: Loads it where there is nothing but TVM, and prints the result.
RUN = """\
import sys
import numpy as np
import tvm

library = tvm.runtime.load_module(sys.argv[1])
x = np.ones((2, 3), "float32")
try:
    from tvm.contrib import graph_executor
except ImportError:
    from tvm.runtime.vm import VirtualMachine

    y = VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
else:
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(x=x)
    y = executor.get_output(0).numpy()
assert not any(name.startswith("pytest_byoc") for name in sys.modules)
print(y.tolist())
"""


@pytest.fixture(scope="module")
def library(ir: str) -> Path:
    """The path of oneDNN, as the tests' interpreter finds it."""
    code = "from pytest_byoc.examples.example_dnnl import library; print(library.find())"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("no oneDNN for the tests' interpreter: pip install 'pytest-byoc[dnnl]'")
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def artifact(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact whose oneDNN is `root/lib/libdnnl.so.3` beside it, which tests may replace."""
    folder = tmp_path_factory.mktemp("artifact")
    (folder / "root" / "lib").mkdir(parents=True)
    (folder / "root" / "include").symlink_to(library.parent.parent / "include")
    for name in ("libdnnl.so", "libdnnl.so.3"):
        (folder / "root" / "lib" / name).symlink_to(library)
    environment = dict(os.environ, ONEDNN_ROOT=str(folder / "root"))
    subprocess.run([PYTHON, "-c", BUILD, str(folder / "model.so")], check=True, env=environment)
    return folder / "model.so"


def run(artifact: Path, linked: Path | None) -> subprocess.CompletedProcess[str]:
    """Runs the artifact in a process of its own, with another file, or none, in place of oneDNN."""
    place = artifact.parent / "root" / "lib" / "libdnnl.so.3"
    place.unlink(missing_ok=True)
    if linked is not None:
        place.symlink_to(linked)
    return subprocess.run([PYTHON, "-c", RUN, str(artifact)], capture_output=True, text=True)


def stub(artifact: Path, folder: Path, version: str, without: str = "") -> Path:
    """Compiles a library with the functions of oneDNN that the artifact calls, which do nothing."""
    undefined = subprocess.run(["nm", "-D", "-u", str(artifact)], capture_output=True, text=True, check=True)
    names = set(re.findall(r"\bdnnl_\w+", undefined.stdout)) - {"dnnl_version", without}
    assert len(names) > 20
    source = [f"int {name}(void) {{ return 0; }}" for name in sorted(names)]
    source.append(f"static const int version[3] = {{{version}}};")
    source.append("const int* dnnl_version(void) { return version; }")
    (folder / "stub.c").write_text("\n".join(source))
    path = folder / "libdnnl.so.3"
    flags = ["-shared", "-fPIC", "-Wl,-soname,libdnnl.so.3", "-o", str(path)]
    subprocess.run(["gcc", str(folder / "stub.c"), *flags], check=True)
    return path


def test_an_artifact_runs_with_the_runtime_and_the_library_alone(artifact: Path, library: Path) -> None:
    done = run(artifact, library)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[0, 0, 6, 15]] * 2


def test_an_artifact_without_the_library_raises(artifact: Path) -> None:
    done = run(artifact, None)
    assert (done.returncode, "libdnnl.so.3: cannot open" in done.stderr) == (1, True), done.stderr


def test_a_library_without_a_function_is_an_error_when_loaded(artifact: Path, tmp_path: Path) -> None:
    done = run(artifact, stub(artifact, tmp_path, "3, 2, 0", without="dnnl_primitive_execute"))
    message = "undefined symbol: dnnl_primitive_execute"
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr


def test_a_library_of_another_version_is_an_error(artifact: Path, tmp_path: Path) -> None:
    done = run(artifact, stub(artifact, tmp_path, "2, 7, 0"))
    assert (done.returncode, "another version" in done.stderr) == (1, True), done.stderr


def session(
    pytester: pytest.Pytester, ir: str, target: str, operators: str, pattern: str
) -> pytest.RunResult:
    return pytester.runpytest_subprocess(
        f"--byoc-target={target}", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}", "--byoc-level=smoke",
        f"--byoc-operators={operators}", "--byoc-report=out", "-p", "no:cacheprovider", "-x", "-k", pattern,
        timeout=300,
    )  # fmt: skip


@pytest.mark.parametrize("version", ["", "2, 7, 0"])
def test_a_target_without_the_library_names_the_remedy(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch, version: str,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    root = pytester.mkdir("root")
    if version:
        (root / "lib").mkdir()
        stub(request.getfixturevalue("artifact"), root / "lib", version)
        (root / "include").symlink_to(request.getfixturevalue("library").parent.parent / "include")
    monkeypatch.setenv("ONEDNN_ROOT", str(root))
    result = session(pytester, ir, "example_dnnl", "nn.relu", "test_operator")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stderr.str() + result.stdout.str()
    what = "is oneDNN 2.7.0; it needs 3.2" if version else "there is no oneDNN"
    assert what in text and "pip install 'pytest-byoc[dnnl]'" in text and "Traceback" not in text


def test_it_conforms(pytester: pytest.Pytester, ir: str, library: Path) -> None:
    pattern = "test_operator and (float32-padding or groups) or test_thoroughly and diamond"
    result = session(pytester, ir, "example_dnnl", "nn.conv2d,add,nn.relu", pattern)
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert report["failures"] == []


#: By name: a mistake and the test in which it shows.
FAULTS = {
    "sides_swapped": (
        Fault(
            "sides_swapped", 40, "the paddings of the two sides are swapped", ("nn.conv2d",), "numerics",
            (Patch("steps.py", '"left": pads[:count], "right": pads[count:]',
                   '"left": pads[count:], "right": pads[:count]'),),
        ),
        "test_operator and float32-padding",
    ),
    "weights_reordered_once": (
        Fault(
            "weights_reordered_once", 44, "weights that are inputs are brought into another layout once",
            ("nn.dense",), "rerun",
            (
                Patch("runtime.c", "r->value[value].place == CONSTANT || r->value[value].place == KEPT",
                      "r->value[value].place != WORKSPACE"),
                Patch("runtime.c", "  TRY(execute_all(r, 1, NULL));\n", ""),
                Patch("runtime.c", "if (status == dnnl_success) status = execute_all(r, 0, args);",
                      "if (status == dnnl_success && r->ready++ == 1) status = execute_all(r, 1, args);\n"
                      "  if (status == dnnl_success) status = execute_all(r, 0, args);"),
            ),
        ),
        "test_operator and float32 and weight_input",
    ),
    "bias_lost": (
        Fault(
            "bias_lost", 5, "the bias of a composite is not added",
            ("nn.conv2d", "nn.bias_add", "add"), "numerics",
            (Patch("steps.py", "operands = [*operands, _view(_BIAS, others[0].tensor, dims)]",
                   "operands = list(operands)"),),
        ),
        "test_pattern",
    ),
    "workspace_shared": (
        Fault(
            "workspace_shared", 45, "threads share the workspace of a region", ("nn.relu", "tanh"), "threads",
            (
                Patch("runtime.c", "  char* const workspace = aligned_alloc(64, r->bytes[WORKSPACE] + 64);",
                      "  static char* shared;\n"
                      "  char* const workspace = shared ? shared : "
                      "(shared = aligned_alloc(64, r->bytes[WORKSPACE] + 64));"),
                Patch("runtime.c", "  dnnl_stream_destroy(stream);\n  free(workspace);\n",
                      "  dnnl_stream_destroy(stream);\n"),
            ),
        ),
        "test_thoroughly and large",
    ),
    "constant_of_the_compiler": (
        Fault(
            "constant_of_the_compiler", 27, "the artifact holds the address of a constant", ("add",),
            "roundtrip",
            (Patch("c_source.py", '"NULL" if tensor.data is None else f"{s}_constant_{number}"',
                   '"NULL" if tensor.data is None else f"(void*){tensor.data.ctypes.data}"'),),
        ),
        "test_operator and constant_operand",
    ),
}  # fmt: skip


@pytest.mark.once
def test_mistakes_can_be_planted(tmp_path: Path) -> None:
    for fault, _ in FAULTS.values():
        apply(dataclasses.replace(fault, example="example_dnnl"), tmp_path)


@pytest.mark.of_examples
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_mistake_is_found(name: str, pytester: pytest.Pytester, ir: str, library: Path) -> None:
    fault, pattern = FAULTS[name]
    target = apply(dataclasses.replace(fault, example="example_dnnl"), pytester.path)
    reference = f"{target / '__init__.py'}:target"
    result = session(pytester, ir, reference, ",".join(fault.operators), pattern)
    assert result.ret == pytest.ExitCode.TESTS_FAILED, result.stdout.str()
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert [failure["check"] for failure in report["failures"]] == [fault.check]
