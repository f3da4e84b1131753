"""Tests of ``example_dnnl``: conformance at smoke, artifacts in a process of their own, a library that
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

TARGET = "pytest_byoc.examples.example_dnnl:target"


@pytest.fixture(scope="module")
def library(ir: str) -> Path:
    """The path of oneDNN, as the tests' interpreter finds it."""
    done = python("from pytest_byoc.examples.example_dnnl import library; print(library.find())")
    if done.returncode:
        pytest.skip("no oneDNN for the tests' interpreter: pip install 'pytest-byoc[dnnl]'")
    return Path(done.stdout.strip())


@pytest.fixture(scope="module")
def artifacts(ir: str, library: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Artifacts whose oneDNN is `root/lib/libdnnl.so.3` beside them, which tests may replace."""
    folder = tmp_path_factory.mktemp("artifacts")
    (folder / "root" / "lib").mkdir(parents=True)
    (folder / "root" / "include").symlink_to(library.parent.parent / "include")
    for name in ("libdnnl.so", "libdnnl.so.3"):
        (folder / "root" / "lib" / name).symlink_to(library)
    return built(ir, TARGET, folder, ONEDNN_ROOT=str(folder / "root"))


def linked_with(artifacts: list[Path], library: Path | None) -> list[Path]:
    """Puts another file, or none, in place of the artifacts' oneDNN."""
    replaced(artifacts[0].parent / "root" / "lib" / "libdnnl.so.3", library)
    return artifacts


def stub(artifact: Path, folder: Path, version: str, without: str = "") -> Path:
    """Compiles a library with the functions of oneDNN that the artifact calls, which do nothing."""
    code = (
        f"static const int version[3] = {{{version}}};\n"
        "const int* dnnl_version(void) { return version; }"
    )
    path = folder / "libdnnl.so.3"
    return stub_library(artifact, path, "dnnl_", ("dnnl_version", code), without, least=20)


def test_an_artifact_runs_with_runtime_and_library_alone(artifacts: list[Path], library: Path) -> None:
    assert {result_of(artifact) for artifact in linked_with(artifacts, library)} == {EXPECTED}


def test_an_artifact_without_the_library_raises(artifacts: list[Path]) -> None:
    for artifact in linked_with(artifacts, None):
        assert "libdnnl.so.3: cannot open" in error_of(artifact)


def test_a_library_without_a_function_is_an_error_when_loaded(artifacts: list[Path], tmp_path: Path) -> None:
    lacking = stub(artifacts[0], tmp_path, "3, 2, 0", without="dnnl_primitive_execute")
    for artifact in linked_with(artifacts, lacking):
        assert "undefined symbol: dnnl_primitive_execute" in error_of(artifact)


def test_a_library_of_another_version_is_an_error(artifacts: list[Path], tmp_path: Path) -> None:
    for artifact in linked_with(artifacts, stub(artifacts[0], tmp_path, "2, 7, 0")):
        assert "another version" in error_of(artifact)


@pytest.mark.once
@pytest.mark.parametrize("version", ["", "2, 7, 0"])
def test_a_target_without_the_library_names_the_remedy(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch, version: str,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    root = pytester.mkdir("root")
    if version:
        (root / "lib").mkdir()
        stub(request.getfixturevalue("artifacts")[0], root / "lib", version)
        (root / "include").symlink_to(request.getfixturevalue("library").parent.parent / "include")
    monkeypatch.setenv("ONEDNN_ROOT", str(root))
    what = "is oneDNN 2.7.0; it needs 3.2" if version else "there is no oneDNN"
    assert_refused(pytester, ir, "example_dnnl", what, "pip install 'pytest-byoc[dnnl]'")


def test_it_conforms(pytester: pytest.Pytester, ir: str, library: Path) -> None:
    tests = "test_operator and (float32-padding or groups) or test_thoroughly and diamond"
    assert_conforms(pytester, ir, "example_dnnl", "nn.conv2d,add,nn.relu", tests)


_POOLED = """\
from pytest_byoc import TensorType
from pytest_byoc.generation.builder import Builder

def test_pooled(byoc_check):
    builder = Builder()
    elements = ["-inf" if i % 7 else i % 5 for i in range(2 * 16 * 9 * 8)]
    x = builder.input(TensorType((2, 16, 9, 8), "float32"), data=elements)
    ones = builder.constant(TensorType((16, 1, 1, 1), "float32"), data=[1.0] * 16)
    y = builder.simple("nn.conv2d", x, ones, groups=16, channels=16, kernel_size=(1, 1))
    window = {"pool_size": (3, 2), "strides": (2, 1), "dilation": (1, 2), "padding": (1, 0, 2, 1)}
    y = builder.simple("nn.max_pool2d", y, **window)
    verdict = byoc_check(builder.graph(y))
    # LLVM's build is wrong: TVM's own maximum begins with the least finite number, too.
    assert (verdict.outcome, verdict.offloaded) == ("reference-wrong", (True, True))
"""


@pytest.mark.parametrize("instructions", ["DEFAULT", "SSE41"])
def test_windows_of_infinity_are_set_right_in_each_layout(
    pytester: pytest.Pytester, ir: str, library: Path, monkeypatch: pytest.MonkeyPatch, instructions: str
) -> None:
    """oneDNN's convolution leaves its result as NHWC, or in blocks of channels if it has SSE4.1 alone."""
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", instructions)
    pytester.makepyfile(test_pooled=_POOLED)
    result = pytester.runpytest_subprocess(
        "--byoc-target=example_dnnl", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}",
        "-p", "no:cacheprovider", "test_pooled.py", timeout=300,
    )  # fmt: skip
    result.assert_outcomes(skipped=1)  # a graph that LLVM gets wrong is no pass


MISTAKES = {
    "sides_of_padding_swapped": Mistake(
        [Patch("steps.py", '"left": pads[:count], "right": pads[count:]',
               '"left": pads[count:], "right": pads[:count]')],
        "nn.conv2d", "test_operator and float32-padding", {"numerics"},
    ),
    "wrong_stride": Mistake(
        [Patch("runtime.c", "strides[i + 1] * t->dims[i + 1];", "strides[i + 1] * t->dims[i];")],
        "add", "test_operator and float32", {"numerics", "process"},
    ),
    "weights_that_are_inputs_reordered_once": Mistake(
        [
            Patch("runtime.c", "r->value[value].place == CONSTANT || r->value[value].place == KEPT",
                  "r->value[value].place != WORKSPACE"),
            Patch("runtime.c", "  TRY(execute_all(r, 1, NULL));\n", ""),
            Patch("runtime.c", "if (status == dnnl_success) status = execute_all(r, 0, args);",
                  "if (status == dnnl_success && r->ready++ == 1) status = execute_all(r, 1, args);\n"
                  "  if (status == dnnl_success) status = execute_all(r, 0, args);"),
        ],
        "nn.dense", "test_operator and float32 and weight_input", {"rerun"},
    ),
    "bias_lost": Mistake(
        [Patch("steps.py", "operands = [*operands, _view(_BIAS, others[0].tensor, dims)]",
               "operands = list(operands)")],
        "nn.conv2d,nn.bias_add,add", "test_pattern", {"numerics"},
    ),
    "workspace_shared_by_threads": Mistake(
        [
            Patch("runtime.c", "  char* const workspace = aligned_alloc(64, r->bytes[WORKSPACE] + 64);",
                  "  static char* shared;\n"
                  "  char* const workspace = shared ? shared : "
                  "(shared = aligned_alloc(64, r->bytes[WORKSPACE] + 64));"),
            Patch("runtime.c", "  dnnl_stream_destroy(stream);\n  free(workspace);\n",
                  "  dnnl_stream_destroy(stream);\n"),
        ],
        "nn.relu,tanh", "test_thoroughly and large", {"threads"},
    ),
    "address_of_a_constant_saved": Mistake(
        [Patch("c_source.py", '"NULL" if tensor.data is None else f"{s}_constant_{number}"',
               '"NULL" if tensor.data is None else f"(void*){tensor.data.ctypes.data}"')],
        "add", "test_operator and constant_operand", {"roundtrip"},
    ),
}  # fmt: skip


@pytest.mark.once
def test_mistakes_can_be_planted(tmp_path: Path) -> None:
    for name, mistake in MISTAKES.items():
        planted("example_dnnl", name, mistake.patches, tmp_path)


@pytest.mark.of_examples
@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str, pytester: pytest.Pytester, ir: str, library: Path) -> None:
    assert_found(pytester, ir, "example_dnnl", name, MISTAKES[name])
