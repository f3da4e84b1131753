"""Tests of ``example_module``: conformance at smoke, artifacts with and without the runtime's library, of
another version or damaged, libraries that cannot be built or loaded, and planted mistakes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fixtures.faults import Patch

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
    result_of,
)

TARGET = "pytest_byoc.examples.example_module:target"
KINDS = ("graph",)
#: Where the libraries are, by the variable of the environment that names their folder.
FIND = "from pytest_byoc.examples.example_module import library; print(*library.find(), sep='\\n')"


@pytest.fixture(scope="module")
def libraries(ir: str) -> list[Path]:
    """The compiler's library and the runtime's, built for the tests' interpreter."""
    done = python(FIND)
    assert done.returncode == 0, done.stderr
    return [Path(line) for line in done.stdout.split()]


@pytest.fixture(scope="module")
def artifact(ir: str, libraries: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ir, TARGET, tmp_path_factory.mktemp("artifacts"), kinds=KINDS)[0]


def test_an_artifact_runs_with_the_runtimes_library_alone(artifact: Path, libraries: list[Path]) -> None:
    assert result_of(artifact, libraries[1]) == EXPECTED


def test_the_compilers_library_is_loaded_before_tvm_and_runs_artifacts_too(
    artifact: Path, libraries: list[Path]
) -> None:
    """The process has the whole of TVM, of which Relay's compiler and runtime are two libraries."""
    assert result_of(artifact, libraries[0], TVM_USE_RUNTIME_LIB="") == EXPECTED


def test_an_artifact_without_the_library_raises_an_error(artifact: Path) -> None:
    assert "example_module" in error_of(artifact)


#: By name: what is replaced in the artifact, by what, and words of the error.
DAMAGES = {
    "version": (b"XMODULE\0\1", b"XMODULE\0\2", "the artifact has version 2 of the format"),
    "magic": (b"XMODULE\0", b"YMODULE\0", "these bytes are no region"),
    # The length of the symbol, which stands behind the version.
    "length": (b"XMODULE\0" + bytes([1, *[0] * 7]), b"XMODULE\0" + bytes([1, *[0] * 7, 255, 255]), "damaged"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_bytes_that_the_library_cannot_read_are_refused(
    name: str, artifact: Path, libraries: list[Path], tmp_path: Path
) -> None:
    before, after, words = DAMAGES[name]
    content = artifact.read_bytes()
    at = content.index(before)
    damaged = tmp_path / artifact.name
    damaged.write_bytes(content[:at] + after + content[at + len(after) :])
    assert words in error_of(damaged, libraries[1])


def test_a_library_that_does_not_fit_is_refused(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing one, one without the target's functions, and one of another version."""
    stub = pytester.path / "libexample_module.so"
    monkeypatch.setenv("EXAMPLE_MODULE_LIBRARIES", str(pytester.path))
    assert f"there is no {stub}" in python(FIND).stderr
    for path in (stub, pytester.path / "libexample_module_runtime.so"):
        subprocess.run(["g++", "-shared", "-x", "c++", "/dev/null", "-o", path], check=True)
    assert_refused(pytester, ir, "example_module", "has no function version", "unset EXAMPLE_MODULE_LIB")
    registered = """
import sys, tvm
register = getattr(tvm, "register_global_func", None) or tvm.register_func
for name in ("version", "supports", "FoldTransposes"):
    register("example_module." + name, lambda: 2)
from pytest_byoc.examples.example_module import library
library.load(sys.argv[1])
"""
    assert f"{stub} has version 2, not 1" in python(registered, stub).stderr


def test_libraries_that_cannot_be_built_are_refused(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makefile("", cmake="#!/bin/sh\necho no compiler; exit 1\n")
    pytester.path.joinpath("cmake").chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "cache"))
    monkeypatch.setenv("PATH", f"{pytester.path}{os.pathsep}{os.environ['PATH']}")
    assert_refused(pytester, ir, "example_module", "pip install 'pytest-byoc[module]'", "no compiler")


def test_it_conforms(pytester: pytest.Pytester, ir: str, libraries: list[Path]) -> None:
    tests = "test_pattern or test_operator and (float32 or int32) and (groups or edges or constant)"
    assert_conforms(pytester, ir, "example_module", "nn.conv2d,add,nn.bias_add,nn.dense,transpose", tests)


MISTAKES = {
    "right_side_read_in_the_other_order": Mistake(
        [Patch("region.cc", "transposed_b ? column * inner + k :", "transposed_b ? k * columns + column :")],
        "nn.dense", "test_operator", {"numerics"}, irs=("relay",),
    ),
    "stride_of_the_left_stack": Mistake(
        [Patch("region.cc", "left + at_a * rows * inner", "left + i * rows * inner")],
        "matmul,nn.matmul,nn.batch_matmul", "test_operator", {"numerics", "overread"},
    ),
    "bias_along_the_last_axis": Mistake(
        [Patch("region.cc", "shape[step.ints[0]] =", "shape[shape.size() - 1] =")],
        "nn.bias_add", "test_operator", {"numerics", "process"}, irs=("relay",),
    ),
    "constant_lost_on_save": Mistake(
        [Patch(f"{ir}_module.cc", "region_.ToBytes()", "Saved().ToBytes()") for ir in ("relay", "relax")]
        + [Patch(f"{ir}_module.cc", " private:\n",
                 " private:\n  Region Saved() const {\n    Region saved = region_;\n"
                 "    for (Tensor& t : saved.tensors) t.data.assign(t.data.size(), 0);\n"
                 "    return saved;\n  }\n")
           for ir in ("relay", "relax")],
        "add", "test_operator and constant", {"roundtrip", "numerics"},
    ),
    "regions_kept_by_their_symbol": Mistake(
        [Patch("region.cc", "  return region;\n}\n\nvoid Run",
               "  static std::map<std::string, Region> kept;\n"
               "  return kept.insert({region.symbol, region}).first->second;\n}\n\nvoid Run"),
         Patch("region.cc", "#include <functional>\n", "#include <functional>\n#include <map>\n")],
        "add,multiply", "test_thoroughly", {"instances", "numerics", "together", "threads", "process"},
    ),
    "memory_of_results_shared_by_threads": Mistake(
        [Patch("region.cc", "  std::vector<std::vector<char>> results(region.tensors.size());\n",
               "  static std::vector<std::vector<char>> results(99);\n"
               "  if (region.tensors.size() > 99) Fail(\"too many tensors\");\n")],
        "nn.conv2d,nn.dense,add", "test_thoroughly", {"threads", "process"},
    ),
    "constants_transposed_by_the_inverse": Mistake(
        [Patch("transpose.h", "      const int64_t extent = from.shape[axes[axis]];\n"
                              "      at += rest % extent * strides[axes[axis]];\n",
               "      const int64_t extent = from.shape[axes[axis]];\n"
               "      at += rest % extent * strides[axes[axes[axis]]];\n")],
        "transpose,nn.conv2d,add", "test_operator or test_structure or test_pattern or test_thoroughly",
        {"numerics", "inline-back"},
    ),
    "regions_of_others_rewritten": Mistake(
        [Patch("relax_codegen.cc", ' || Attributes(function).count("Codegen")', ""),
         Patch("relax_codegen.cc", "if (folds) {", "if (true) {")],
        "nn.relu,add", "test_thoroughly", {"bystanders"}, irs=("relax",),
    ),
}  # fmt: skip


@pytest.mark.once
def test_mistakes_can_be_planted(tmp_path: Path) -> None:
    for name, mistake in MISTAKES.items():
        planted("example_module", name, mistake.patches, tmp_path)


@pytest.mark.of_examples
@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str, pytester: pytest.Pytester, ir: str) -> None:
    assert_found(pytester, ir, "example_module", name, MISTAKES[name])
