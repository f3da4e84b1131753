"""Tests of ``example_openvino``: conformance at smoke, artifacts in a process of their own, a library that
is missing, of another version or without a function, and planted mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.faults import Patch

from .conftest import PYTHON
from .example_helpers import (
    EXPECTED,
    Mistake,
    assert_conforms,
    assert_found,
    assert_refused,
    built,
    error_of,
    planted,
    python,
    replaced,
    result_of,
    stub_library,
)

TARGET = "pytest_byoc.examples.example_openvino:target"


@pytest.fixture(scope="module")
def library(ir: str) -> Path:
    """The path of OpenVINO's C library, as the tests' interpreter finds it."""
    done = python("from pytest_byoc.examples.example_openvino import library; print(library.find())")
    if done.returncode:
        pytest.skip("no OpenVINO for the tests' interpreter: pip install 'pytest-byoc[openvino]'")
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def artifacts(ir: str, library: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Artifacts whose OpenVINO is in `root/libs` beside them, where tests may replace it."""
    folder = tmp_path_factory.mktemp("artifacts")
    (folder / "root" / "libs").mkdir(parents=True)
    (folder / "root" / "include").symlink_to(library.parent.parent / "include")
    for path in library.parent.iterdir():
        (folder / "root" / "libs" / path.name).symlink_to(path)
    return built(ir, TARGET, folder, OPENVINO_ROOT=str(folder / "root"))


def linked_with(artifacts: list[Path], library: Path, other: Path | None) -> list[Path]:
    """Puts another file, or none, in place of the artifacts' library."""
    replaced(artifacts[0].parent / "root" / "libs" / library.name, other)
    return artifacts


def stub(artifact: Path, path: Path, version: str, without: str = "") -> Path:
    """Compiles a library with the functions of OpenVINO that the artifact calls, which do nothing."""
    code = f'int ov_get_openvino_version(const char** v) {{ *v = "{version}"; return 0; }}'
    return stub_library(artifact, path, "ov_", ("ov_get_openvino_version", code), without, least=10)


def test_an_artifact_runs_with_runtime_and_library_alone(artifacts: list[Path], library: Path) -> None:
    assert {result_of(artifact) for artifact in linked_with(artifacts, library, library)} == {EXPECTED}


def test_an_artifact_without_the_library_raises(artifacts: list[Path], library: Path) -> None:
    for artifact in linked_with(artifacts, library, None):
        assert f"{library.name}: cannot open" in error_of(artifact)


def test_a_library_without_a_function_is_an_error_when_loaded(
    artifacts: list[Path], library: Path, tmp_path: Path
) -> None:
    lacking = stub(artifacts[0], tmp_path / library.name, "2026.4.1", without="ov_infer_request_infer")
    for artifact in linked_with(artifacts, library, lacking):
        assert "undefined symbol: ov_infer_request_infer" in error_of(artifact)


def test_a_library_of_another_version_is_an_error(
    artifacts: list[Path], library: Path, tmp_path: Path
) -> None:
    other = stub(artifacts[0], tmp_path / library.name, "2025.1.0-18503")
    for artifact in linked_with(artifacts, library, other):
        error = error_of(artifact)
        assert "another version of OpenVINO: 2025.1.0-18503 in place of 20" in error
        assert "Compile the artifact again" in error


@pytest.mark.once
@pytest.mark.parametrize("version", ["", "2025.1.0-18503"])
def test_a_target_without_the_library_names_the_remedy(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch, version: str,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    root = pytester.mkdir("root")
    if version:
        library = request.getfixturevalue("library")
        (root / "libs").mkdir()
        stub(request.getfixturevalue("artifacts")[0], root / "libs" / library.name, version)
        (root / "include").symlink_to(library.parent.parent / "include")
    monkeypatch.setenv("OPENVINO_ROOT", str(root))
    what = "is OpenVINO 2025.1; it needs 2026.4" if version else "there is no OpenVINO"
    assert_refused(pytester, ir, "example_openvino", what, "pip install 'pytest-byoc[openvino]'")


def test_it_conforms(pytester: pytest.Pytester, ir: str, library: Path) -> None:
    tests = "test_operator and (float32-padding or groups or nan) or test_thoroughly and diamond"
    assert_conforms(pytester, ir, "example_openvino", "nn.conv2d,nn.softmax,add,nn.relu", tests)


#: Maxima of infinities alone, which LLVM's build gets wrong too.
_MAXIMA = """\
from pytest_byoc import TensorType
from pytest_byoc.generation.builder import Builder

def test_maxima(byoc_check):
    builder = Builder()
    x = builder.input(TensorType((1, 2, 4, 3), "float32"), data=["-inf"] * 18 + [1.0, 2.0, 3.0] * 2)
    y = builder.simple("nn.max_pool2d", x, pool_size=(3, 2), strides=(2, 1), padding=(1, 0, 2, 1))
    z = builder.simple("max", x, axis=(3,), keepdims=False, exclude=False)
    verdict = byoc_check(builder.graph(y, z))
    assert (verdict.outcome, verdict.offloaded) == ("reference-wrong", (True, True))
"""


def _maxima(pytester: pytest.Pytester, ir: str, target: str) -> pytest.RunResult:
    pytester.makepyfile(test_maxima=_MAXIMA)
    return pytester.runpytest_subprocess(
        f"--byoc-target={target}", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}",
        "-p", "no:cacheprovider", "test_maxima.py", timeout=300,
    )  # fmt: skip


def test_maxima_of_infinities_are_set_right(pytester: pytest.Pytester, ir: str, library: Path) -> None:
    _maxima(pytester, ir, "example_openvino").assert_outcomes(skipped=1)


@pytest.mark.of_examples
@pytest.mark.parametrize("condition", ['name in ("max", "min")', "not is_average"])
def test_maxima_of_infinities_left_to_openvino_are_found(
    pytester: pytest.Pytester, ir: str, library: Path, condition: str
) -> None:
    patch = Patch("operators.py", f"    if {condition}:\n", "    if False:\n")
    package = planted("example_openvino", "left", [patch], pytester.path)
    _maxima(pytester, ir, f"{package / '__init__.py'}:target").assert_outcomes(failed=1)


def test_an_error_of_the_library_is_raised(ir: str, library: Path, tmp_path: Path) -> None:
    option = Patch("runtime.c", '"CPU_DENORMALS_OPTIMIZATION", "NO"', '"CPU_DENORMALS_OPTIMIZATION", "?"')
    package = planted("example_openvino", "option", [option], tmp_path)
    artifact = built(
        ir, f"{package.name}:target", tmp_path / "artifacts", kinds=("graph",), PYTHONPATH=str(package.parent)
    )[0]
    error = error_of(artifact)
    assert "ov_core_compile_model" in error and "CPU_DENORMALS_OPTIMIZATION" in error


#: Runs a region with more shapes than models are kept, twice, and two shapes by turns in two threads.
_SHAPES = """
import threading
import numpy as np, tvm
from tvm import relax
from pytest_byoc.examples.example_openvino import target

def variable(name):
    try:
        return tvm.tirx.Var(name, "int64")
    except AttributeError:
        return tvm.tir.Var(name, "int64")

n = variable("n")
x = relax.Var("x", relax.TensorType((n, 3), "float32"))
builder = relax.BlockBuilder()
with builder.function("main", [x]):
    with builder.dataflow():
        y = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(x, relax.const(np.ones(3, "float32"))))))
        y = builder.emit_output(y)
    builder.emit_func_output(y)
partitioned = target.partition(builder.get())
assert len(partitioned.functions) == 2, partitioned
executable = tvm.compile(relax.transform.RunCodegen()(partitioned), target="llvm")
executable.export_library("open.so", **target.export_options)
module = tvm.runtime.load_module("open.so")

def run(*counts):
    machine = relax.VirtualMachine(module, tvm.cpu())
    for count in counts:
        array = np.linspace(-4, 4, count * 3, dtype="float32").reshape(count, 3)
        result = machine["main"](tvm.runtime.tensor(array)).numpy()
        np.testing.assert_array_equal(result, np.maximum(array + 1, 0))
        done.append(count)

done = []
run(*range(1, 41), *range(1, 41))
threads = [threading.Thread(target=run, args=counts * 20) for counts in ((1, 2), (2, 1))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(len(done))
"""


def test_more_shapes_than_models_are_kept(
    ir: str, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ir == "relay":
        pytest.skip("open extents are offloaded in Relax alone")
    monkeypatch.chdir(tmp_path)
    done = python(_SHAPES)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["160"]), done.stderr


def _has_bfloat16() -> bool:
    """Whether OpenVINO computes in bfloat16 by default."""
    flags = Path("/proc/cpuinfo").read_text()
    return "avx512_bf16" in flags or "amx_bf16" in flags


MISTAKES = {
    "permutation_inverted": Mistake(
        [Patch("operators.py", "[axis % rank for axis in order]", "[order.index(i) for i in range(rank)]")],
        "transpose", "test_operator and float32", {"numerics", "process"},
    ),
    "bias_along_the_last_axis": Mistake(
        [Patch("operators.py", "[*bias.shape, *[1] * (rank - 1 - axis)]", "bias.shape")],
        "nn.bias_add", "test_operator and float32", {"numerics", "process"}, irs=("relay",),
    ),
    "mean_of_a_normalisation_lost": Mistake(
        [Patch("operators.py", 'net.add("Subtract", [data, mean], result), deviation', "data, deviation")],
        "nn.batch_norm", "test_operator and float32", {"numerics"},
    ),
    "constants_at_one_offset": Mistake(
        [Patch("net.py", '"offset": offset,', '"offset": 0,')],
        "nn.conv2d,add", "test_pattern or test_operator and float32", {"numerics", "process", "reproducible"},
    ),
    "tensors_of_the_first_call_kept": Mistake(
        [Patch("runtime.c", "  if (request->request == NULL) TRY(",
               "  const int is_new = request->request == NULL;\n  if (is_new) TRY("),
         Patch("runtime.c", "int results = 0;\n  for (int i = 0; i < r->inputs && status",
               "int results = 0;\n  for (int i = is_new ? 0 : r->inputs; i < r->inputs && status")],
        "nn.relu", "test_operator and float32", {"rerun", "numerics"},
    ),
    "input_that_is_an_output_left_to_openvino": Mistake(
        [Patch("net.py", "inputs.index(output.layer) if output.layer in inputs else -1", "-1")],
        "nn.batch_norm", "test_pattern", {"inputs-unmodified", "outputs-written", "numerics"},
    ),
    "one_request_for_all_threads": Mistake(
        [Patch("runtime.c", "    if (request != NULL) compiled->idle = request->next;\n", ""),
         Patch("runtime.c", "    request->next = compiled->idle;\n", "")],
        "nn.relu,tanh", "test_thoroughly and large", {"threads"},
    ),
    "address_of_the_weights_saved": Mistake(
        [Patch("c_source.py", "_RUNTIME = Path", "_KEPT = []\n_RUNTIME = Path"),
         Patch("c_source.py", "    # As words,", '    _KEPT.append(np.frombuffer(bytes(net.weights), "u1"))\n'
               "    # As words,"),
         Patch("c_source.py", "sizeof {s}_xml - 1, {s}_weights,",
               "sizeof {s}_xml - 1, (void*){_KEPT[-1].ctypes.data},")],
        "nn.conv2d", "test_operator and float32-groups", {"roundtrip"},
    ),
    "precision_left_to_openvino": Mistake(
        [Patch("runtime.c", '"INFERENCE_PRECISION_HINT", "f32"', '"INFERENCE_PRECISION_HINT", "bf16"')],
        "nn.conv2d", "test_operator and float32", {"numerics"},
    ),
    "model_of_another_shape": Mistake(
        [Patch("runtime.c", "if (args[i].shape[axis] != *extent++) return 0;", "(void)extent;")],
        "nn.relu", "test_operator", {"dynamic"}, irs=("relax",),
    ),
    "open_extents_of_a_reshape_mixed_up": Mistake(
        [Patch("operators.py", "else before.index(v)", "else 0")],
        "expand_dims", "test_operator", {"dynamic"}, irs=("relax",),
    ),
}  # fmt: skip


@pytest.mark.once
def test_mistakes_can_be_planted(tmp_path: Path) -> None:
    for name, mistake in MISTAKES.items():
        planted("example_openvino", name, mistake.patches, tmp_path)


@pytest.mark.of_examples
@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str, pytester: pytest.Pytester, ir: str, library: Path) -> None:
    if name == "precision_left_to_openvino" and not _has_bfloat16():
        pytest.skip("the CPU has no bfloat16, in which OpenVINO would compute")
    level = "standard" if MISTAKES[name].checks == {"dynamic"} else "smoke"
    assert_found(pytester, ir, "example_openvino", name, MISTAKES[name], level)
