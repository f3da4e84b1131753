"""Tests of ``example_onnxruntime``: conformance at smoke, artifacts with and without the function that they
call, open extents, an ONNX Runtime that is missing, too old or incomplete, and planted mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.faults import Patch

from .example_helpers import (
    EXPECTED,
    ROOT,
    Mistake,
    assert_conforms,
    assert_found,
    assert_runtime_is_missed,
    assert_stub_is_refused,
    built,
    error_of,
    planted,
    python,
    result_of,
)

TARGET = "pytest_byoc.examples.example_onnxruntime:target"
RUNTIME = ROOT / "pytest_byoc" / "examples" / "example_onnxruntime" / "runtime.py"


@pytest.fixture(scope="module")
def onnxruntime(ir: str) -> None:
    """Skips the test where the tests' interpreter has no ONNX Runtime."""
    if python("import onnx, onnxruntime").returncode:
        pytest.skip("no ONNX Runtime for the tests' interpreter: pip install 'pytest-byoc[onnxruntime]'")


@pytest.fixture(scope="module")
def artifacts(ir: str, onnxruntime: None, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return built(ir, TARGET, tmp_path_factory.mktemp("artifacts"))


def test_an_artifact_runs_with_its_runtime_alone(artifacts: list[Path], tmp_path: Path) -> None:
    without_onnx = tmp_path / "without_onnx.py"
    without_onnx.write_text("import sys\nsys.modules['onnx'] = None\n")
    for artifact in artifacts:
        assert result_of(artifact, without_onnx, RUNTIME) == EXPECTED


def test_an_artifact_names_the_function_that_is_not_registered(artifacts: list[Path]) -> None:
    assert_runtime_is_missed(artifacts, "example_onnxruntime")


def test_an_error_of_onnxruntime_becomes_one_of_tvm(artifacts: list[Path], tmp_path: Path) -> None:
    refusing = tmp_path / "refusing.py"
    lines = [
        "import onnxruntime",
        "def refuse(*arguments, **options):",
        "    raise ValueError('the model is refused')",
        "onnxruntime.InferenceSession = refuse",
    ]
    refusing.write_text("\n".join(lines))
    for artifact in artifacts:
        assert "the model is refused" in error_of(artifact, refusing, RUNTIME)


#: By name: a stub of ONNX Runtime, and words of the message.
STUBS = {
    "missing": ('raise ImportError("No module named onnxruntime")\n', "cannot be imported: No module named"),
    "old": ('__version__ = "1.16.3"\n', "this is ONNX Runtime 1.16.3; 1.17 or later is needed"),
    "incomplete": ('__version__ = "9.0"\nSessionOptions = object\n', "9.0 has no InferenceSession"),
}


@pytest.mark.once
@pytest.mark.parametrize("name", STUBS)
def test_an_onnxruntime_that_does_not_fit_is_refused(
    pytester: pytest.Pytester, ir: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_stub_is_refused(pytester, ir, monkeypatch, "onnxruntime", STUBS[name])


def test_it_conforms(pytester: pytest.Pytester, ir: str, onnxruntime: None) -> None:
    tests = "test_operator and (float32-padding or float32-nan or int8] or (float32 and constant_operand))"
    assert_conforms(pytester, ir, "example_onnxruntime", "nn.conv2d,nn.max_pool2d,add,nn.softmax,sum", tests)


#: The variables of both inputs have the same name. The last reshape has an extent that its operand does not
#: tell, so that TVM passes it as an argument.
OPEN = """
import numpy as np, tvm
from tvm import relax
from pytest_byoc.examples.example_onnxruntime import target

Var = (tvm.tirx if hasattr(tvm, "tirx") else tvm.tir).Var
Type = relax.TensorType if hasattr(relax, "TensorType") else relax.TensorStructInfo
rows, count = Var("n", "int64"), Var("n", "int64")
builder = relax.BlockBuilder()
x, y = relax.Var("x", Type((rows, 4), "float32")), relax.Var("y", Type((count,), "float32"))
with builder.function("main", [x, y]):
    with builder.dataflow():
        z = builder.emit(relax.op.flatten(builder.emit(relax.op.nn.relu(x))))
        z = builder.emit(relax.op.concat([z, builder.emit(relax.op.negative(y))], 0))
        z = builder.emit_output(builder.emit(relax.op.reshape(z, (1, rows * 4 + count))))
    builder.emit_func_output(z)
partitioned = target.partition(builder.get())
assert len(partitioned.functions) == 2, partitioned
built = tvm.compile(relax.transform.RunCodegen()(partitioned), target="llvm")
main = relax.VirtualMachine(built, tvm.cpu())["main"]
for rows, count in ((2, 3), (5, 1), (1, 7), (2, 3)):
    x, y = np.arange(rows * 4, dtype="float32").reshape(rows, 4) - 3, np.arange(count, dtype="float32")
    z = main(tvm.runtime.tensor(x), tvm.runtime.tensor(y)).numpy()
    np.testing.assert_array_equal(z, [[*np.maximum(x, 0).ravel(), *-y]])
"""


def test_extents_may_be_open(ir: str, onnxruntime: None) -> None:
    if ir == "relay":
        pytest.skip("open extents are offloaded in Relax alone")
    done = python(OPEN)
    assert done.returncode == 0, done.stderr


#: Bystanders that a target may not change, though this one offloads almost every operator.
BYSTANDERS = """
import tvm
from tvm import relay
from pytest_byoc.examples.example_onnxruntime import target
from pytest_byoc.ir import relay_bystanders as bystanders

def module():
    x = relay.var("x", shape=(2, 3))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.nn.relu(x))))

before = bystanders.with_bystanders(module(), module())
assert bystanders.bystanders(target.partition(before)) == bystanders.bystanders(before)
"""


def test_bystanders_have_an_operator_that_is_not_offloaded(ir: str, onnxruntime: None) -> None:
    if ir == "relax":
        pytest.skip("the bystander of Relax is a function in TIR")
    done = python(BYSTANDERS)
    assert done.returncode == 0, done.stderr


MISTAKES = {
    "axes_moved_the_other_way": Mistake(
        [Patch("model.py", "axes = [layout.index(letter) for letter in wanted]",
               "axes = [wanted.index(letter) for letter in layout]")],
        "nn.conv2d", "test_operator and float32 and data_layout_nhwc", {"numerics", "process"},
    ),
    "session_shared_by_regions_with_other_constants": Mistake(
        [Patch("model.py", "hashlib.sha256(data)", "hashlib.sha256(repr(model.nodes).encode())")],
        "nn.dense", "test_structure and weights_alike", {"numerics"},
    ),
    "shift_lost": Mistake(
        [Patch("operators.py", "shift if call.attrs.center else", "shift if None else")],
        "nn.layer_norm", "test_operator and float32", {"numerics"},
    ),
    "binding_shared_by_threads": Mistake(
        [Patch("runtime.py", "        binding = self.session.io_binding()\n",
               "        self.kept = getattr(self, 'kept', None) or self.session.io_binding()\n"
               "        binding = self.kept\n"),
         # Python switches between threads more seldom than that.
         Patch("runtime.py", "        self.session.run_with_iobinding(binding)\n",
               "        __import__('time').sleep(0.001)\n"
               "        self.session.run_with_iobinding(binding)\n")],
        "add,multiply", "test_thoroughly and large", {"threads"},
    ),
    "only_the_first_call_runs": Mistake(
        [Patch("runtime.py", "        self.session.run_with_iobinding(binding)\n",
               "        if not hasattr(self, 'ran'):\n"
               "            self.ran = self.session.run_with_iobinding(binding)\n")],
        "reshape", "test_operator and float32", {"rerun", "outputs-written"},
    ),
    "address_of_the_model_saved": Mistake(
        [Patch("model.py", "{symbol}_model, {len(data)}",
               "(void*){_KEPT.append(np.frombuffer(data, 'u1')) or _KEPT[-1].ctypes.data}, {len(data)}"),
         Patch("model.py", "class Unsupported(Exception):\n",
               "_KEPT: List[Any] = []\n\n\nclass Unsupported(Exception):\n")],
        "add", "test_operator and constant_operand", {"roundtrip"},
    ),
}  # fmt: skip


@pytest.mark.once
def test_mistakes_can_be_planted(tmp_path: Path) -> None:
    for name, mistake in MISTAKES.items():
        planted("example_onnxruntime", name, mistake.patches, tmp_path)


@pytest.mark.of_examples
@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str, pytester: pytest.Pytester, ir: str, onnxruntime: None) -> None:
    assert_found(pytester, ir, "example_onnxruntime", name, MISTAKES[name])
