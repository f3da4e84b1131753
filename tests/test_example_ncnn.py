"""Tests of ``example_ncnn``: conformance at smoke, artifacts with and without the function that they call,
an ncnn that is missing, too old or incomplete, and planted mistakes."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import pytest

from fixtures.faults import Fault, Patch, apply

from .conftest import FIXTURES, PYTHON

RUNTIME = FIXTURES.parent / "pytest_byoc" / "examples" / "example_ncnn" / "runtime.py"

#: Compiles a layer with bias and relu, and reshape, for the file given.
BUILD = """\
import sys
import numpy as np
from pytest_byoc.examples.example_ncnn import target

weight, bias = np.arange(12, dtype="float32").reshape(4, 3) - 5, np.full(4, -1, "float32")
try:
    from tvm import relay
except ImportError:
    import tvm
    from tvm import relax

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(x, relax.const(weight.T.copy())))
            y = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(y, relax.const(bias)))))
            y = builder.emit_output(relax.op.reshape(y, (1, 2, 2)))
        builder.emit_func_output(y)
    partitioned = target.partition(builder.get())
    assert len(partitioned.functions) == 2  # main, and one region
    built = tvm.compile(relax.transform.RunCodegen()(partitioned), target="llvm")
else:
    import tvm

    x = relay.var("x", shape=(1, 3))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, relay.const(weight)), relay.const(bias)))
    module = tvm.IRModule.from_expr(relay.Function([x], relay.reshape(y, (1, 2, 2))))
    partitioned = target.partition(module)
    assert len(partitioned.functions) == 2
    built = relay.build(partitioned, target="llvm -mtriple=x86_64-linux-gnu")
built.export_library(sys.argv[1])
"""
#: Loads it where there is TVM's runtime alone, and prints the result for ones. Arguments: the artifact, and
#: the runtime of the example, or nothing.
RUN = """\
import importlib.util
import sys
import numpy as np
import tvm

for path in sys.argv[2:]:
    spec = importlib.util.spec_from_file_location("example_runtime", path)
    runtime = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runtime)
library = tvm.runtime.load_module(sys.argv[1])
x = np.ones((1, 3), "float32")
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
def ncnn(ir: str) -> None:
    """Skips the test where the tests' interpreter has no ncnn."""
    if subprocess.run([PYTHON, "-c", "import ncnn"], capture_output=True).returncode:
        pytest.skip("no ncnn for the tests' interpreter: pip install 'pytest-byoc[ncnn]'")


@pytest.fixture(scope="module")
def artifact(ncnn: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("artifact") / "model.so"
    subprocess.run([PYTHON, "-c", BUILD, str(path)], check=True)
    return path


def run(artifact: Path, *runtime: Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the artifact with TVM's runtime library. folder: where a stub of ncnn lies."""
    environment = dict(os.environ, TVM_USE_RUNTIME_LIB="1")
    if folder is not None:
        environment["PYTHONPATH"] = str(folder)
    command = [PYTHON, "-c", RUN, str(artifact), *map(str, runtime)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_an_artifact_runs_with_its_runtime_alone(artifact: Path) -> None:
    done = run(artifact, RUNTIME)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[[0, 0], [5, 14]]]


def test_an_artifact_names_the_function_that_is_not_registered(artifact: Path) -> None:
    done = run(artifact)
    assert done.returncode == 1, done.stderr
    assert "the global function example_ncnn.run is not registered" in done.stderr
    assert "import example_ncnn's runtime.py" in done.stderr


#: By name: a stub of ncnn, and words of the message.
STUBS = {
    "missing": ('raise ImportError("No module named ncnn")\n', "cannot be imported: No module named ncnn"),
    "old": ('__version__ = "1.0.20210525"\n', "this is ncnn 1.0.20210525; 1.0."),
    "incomplete": ('__version__ = "1.0.20991231"\nNet = Mat = object\n', "1.0.20991231 has no DataReader"),
}


@pytest.mark.parametrize("name", STUBS)
def test_an_ncnn_that_does_not_fit_is_refused(
    pytester: pytest.Pytester, ir: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the target is loaded, and when the runtime is, with the remedy."""
    stub, words = STUBS[name]
    pytester.makepyfile(ncnn=stub)
    done = run(Path("model.so"), RUNTIME, folder=pytester.path)
    assert (done.returncode, words in done.stderr) == (1, True), done.stderr
    monkeypatch.setenv("PYTHONPATH", f"{pytester.path}{os.pathsep}{FIXTURES.parent}")
    result = session(pytester, ir, "example_ncnn", "reshape", "test_operator")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stderr.str() + result.stdout.str()
    assert words in text and "pip install 'pytest-byoc[ncnn]'" in text and "Traceback" not in text


def session(
    pytester: pytest.Pytester, ir: str, target: str, operators: str, pattern: str
) -> pytest.RunResult:
    return pytester.runpytest_subprocess(
        f"--byoc-target={target}", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}", "--byoc-level=smoke",
        f"--byoc-operators={operators}", "--byoc-report=out", "-p", "no:cacheprovider", "-x", "-k", pattern,
        timeout=300,
    )  # fmt: skip


def test_it_conforms(pytester: pytest.Pytester, ir: str, ncnn: None) -> None:
    pattern = "test_pattern or test_operator and float32 and (padding or groups)"
    operators = "nn.conv2d,nn.max_pool2d,reshape,add,nn.bias_add,nn.relu"
    result = session(pytester, ir, "example_ncnn", operators, pattern)
    assert result.ret == pytest.ExitCode.OK, result.stdout.str()
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert report["failures"] == []


#: By name: a mistake and the test in which it shows.
FAULTS = {
    "strides_wrong": (
        Fault(
            "strides_wrong", 40, "weights are read with the strides of the other layout", ("nn.dense",),
            "numerics",
            (Patch("layers.py", "np.ascontiguousarray(weight.T)", "weight.reshape(weight.shape[::-1])"),),
            irs=("relax",),
        ),
        "test_pattern",
    ),
    "bias_lost": (
        Fault(
            "bias_lost", 5, "the bias of a composite is not added",
            ("nn.conv2d", "nn.bias_add", "add"), "numerics",
            (Patch("layers.py", "params = {**layer.params, _BIAS_TERM[layer.kind]: 1}",
                   "params = layer.params"),),
        ),
        "test_pattern",
    ),
    "input_not_aligned": (
        Fault(
            "input_not_aligned", 40, "ncnn reads channels as if each began at a multiple of 16 bytes",
            ("nn.conv2d",), "numerics",
            (Patch("runtime.py", "if pointer % 64 or (len(shape) > 2 and mat.cstep % 4):", "if False:"),),
        ),
        "test_operator and float32-groups",
    ),
    "extractor_kept": (
        Fault(
            "extractor_kept", 44, "a net keeps the results of its first run", ("reshape",), "rerun",
            (Patch("runtime.py", "        extractor = self.net.create_extractor()\n",
                   "        self.kept = getattr(self, 'kept', None) or self.net.create_extractor()\n"
                   "        extractor = self.kept\n"),),
        ),
        "test_pattern",
    ),
    "weights_of_the_compiler": (
        Fault(
            "weights_of_the_compiler", 27, "the artifact holds the address of the weights", ("nn.conv2d",),
            "roundtrip",
            (Patch("c_source.py", "  {s}_weights, {len(weights)}\n",
                   "  (const void*){_KEPT.append(np.frombuffer(bytes(weights), 'u1')) or "
                   "_KEPT[-1].ctypes.data}, {len(weights)}\n"),
             Patch("c_source.py", "class Region:\n", "_KEPT: List[Any] = []\n\n\nclass Region:\n")),
        ),
        "test_operator and float32-padding",
    ),
}  # fmt: skip


@pytest.mark.once
def test_mistakes_can_be_planted(tmp_path: Path) -> None:
    for fault, _ in FAULTS.values():
        apply(dataclasses.replace(fault, example="example_ncnn"), tmp_path)


@pytest.mark.of_examples
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_mistake_is_found(name: str, pytester: pytest.Pytester, ir: str, ncnn: None) -> None:
    fault, pattern = FAULTS[name]
    if ir not in fault.irs:
        pytest.skip(f"{name} can only be planted for {fault.irs}")
    target = apply(dataclasses.replace(fault, example="example_ncnn"), pytester.path)
    reference = f"{target / '__init__.py'}:target"
    result = session(pytester, ir, reference, ",".join(fault.operators), pattern)
    assert result.ret == pytest.ExitCode.TESTS_FAILED, result.stdout.str()
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert [failure["check"] for failure in report["failures"]] == [fault.check]
