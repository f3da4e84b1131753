"""Tests of ``example_extern``: it conforms, its library may come in three ways, mistakes are found."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fixtures.faults import Patch
from pytest_byoc.examples.example_extern.library import find

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

EXAMPLE = "pytest_byoc.examples.example_extern"
try:
    LIBRARY = find()
except ImportError as e:
    pytest.skip(str(e), allow_module_level=True)


def test_conforms(pytester: pytest.Pytester, ir: str) -> None:
    """A few graphs at smoke; two dense layers become one region."""
    tests = "product_patterns or (test_operator and float64)"
    assert_conforms(pytester, ir, "example_extern", "nn.dense,nn.bias_add", tests)


def test_linked_artifact_runs_in_a_bare_process(tmp_path: Path, ir: str) -> None:
    """In Relay under the graph executor and AOT, the latter with static memory planning too."""
    assert {result_of(artifact) for artifact in built(ir, f"{EXAMPLE}:target", tmp_path)} == {EXPECTED}


def test_missing_symbol_is_named_until_the_library_is_loaded(tmp_path: Path, ir: str) -> None:
    for artifact in built(ir, f"{EXAMPLE}:preloaded", tmp_path):
        error = error_of(artifact)
        assert "example_extern: cblas_sgemm is missing" in error
        for way in ("Link its library into the artifact", "with RTLD_GLOBAL before", "compile its source"):
            assert way in error
        assert result_of(artifact, LIBRARY) == EXPECTED


#: The third way: a source that is compiled into the artifact.
PLAIN_BLAS = """
#ifdef __cplusplus
extern "C"
#endif
void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a,
                 int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int l = 0; l < k; ++l)
        sum += a[trans_a == 112 ? l * lda + i : i * lda + l] * b[trans_b == 112 ? j * ldb + l : l * ldb + j];
      c[i * ldc + j] = sum;
    }
}
"""


def test_source_is_compiled_into_the_artifact(tmp_path: Path, ir: str) -> None:
    patch = Patch("library.py", 'SOURCES = ("kernels.c",)', 'SOURCES = ("kernels.c", "plain_blas.c")')
    target = planted("example_extern", "with_source", [patch], tmp_path)
    (target / "plain_blas.c").write_text(PLAIN_BLAS)
    artifacts = built(ir, f"{target.name}:preloaded", tmp_path / "out", PYTHONPATH=str(target.parent))
    assert {result_of(artifact) for artifact in artifacts} == {EXPECTED}


#: Libraries that are refused, as C sources, with the reason in the message.
_BOTH = "void cblas_sgemm(void) {}\nvoid cblas_dgemm(void) {}\n"
REFUSED = {
    "symbol": ("void cblas_sgemm(void) {}\n", "has no cblas_dgemm"),
    "version": (_BOTH + 'const char* openblas_get_config(void) { return "0.3 USE64BITINT"; }\n', "64-bit"),
    "absent": (None, "cannot load"),
}


@pytest.mark.once
@pytest.mark.parametrize("kind", REFUSED)
def test_library_that_does_not_fit_is_refused(
    pytester: pytest.Pytester, ir: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session ends with the message and its remedy, before anything is built."""
    source, words = REFUSED[kind]
    library = pytester.path / f"{kind}.so"
    if source is not None:
        (pytester.path / "library.c").write_text(source)
        command = ["gcc", "-shared", "-fPIC", str(pytester.path / "library.c"), "-o", str(library)]
        subprocess.run(command, check=True)
    monkeypatch.setenv("EXAMPLE_EXTERN_CBLAS", str(library))
    assert_refused(pytester, ir, "example_extern", words, "libopenblas-dev", "EXAMPLE_EXTERN_CBLAS")


_GETENV = "#ifdef __cplusplus\nextern \"C\" {\n#endif\nchar* getenv(const char*);\n"
MISTAKES = {
    "wrong_stride": Mistake(
        [Patch("kernels.c", "b + i * stride_b", "b + i * stride_a")],
        "nn.batch_matmul,matmul",
        "test_operator and float32 and (right_stack or columns_one)", {"numerics"},
    ),
    "lost_bias": Mistake(
        [Patch("kernels.c", "a[i + j] + b[j]", "a[i + j] + (period < size ? 0 : b[j])")],
        "nn.dense", "test_structure and product_patterns", {"numerics"},
    ),
    "weight_cached": Mistake(
        [Patch("kernels.c", "  int64_t i;\n", "  int64_t i;\n  static const float* kept;\n"
               "  b = kept = kept ? kept : b;\n")],
        "nn.dense", "test_structure and weights_alike", {"numerics"},
    ),
    "race": Mistake(
        [Patch("kernels.c", "  int64_t i;\n", "  int64_t i;\n  static float scratch[1 << 16];\n"
               "  float* const result = c;\n  const uint64_t bytes = sizeof *c * stack * m * n;\n"
               "  if (bytes <= sizeof scratch) c = scratch;\n"),
         Patch("kernels.c", "c + i * m * n, n);\n", "c + i * m * n, n);\n"
               "  if (c != result) __builtin_memcpy(result, c, bytes);\n")],
        "nn.dense", "test_thoroughly and large", {"threads"},
    ),
    "state_of_the_compiler": Mistake(
        [Patch("steps.py", "    is_new = ", '    __import__("os").environ["EXAMPLE_EXTERN_SET_UP"] = "1"\n'
               "    is_new = "),
         Patch("kernels.c", '#ifdef __cplusplus\nextern "C" {\n#endif\n', _GETENV),
         Patch("kernels.c", "n, k, 1,\n", 'n, k, getenv("EXAMPLE_EXTERN_SET_UP") ? 1 : 0,\n')],
        "nn.dense", "test_operator and float32", {"roundtrip"},
    ),
}  # fmt: skip


@pytest.mark.once
def test_mistakes_can_be_planted(tmp_path: Path) -> None:
    for name, mistake in MISTAKES.items():
        planted("example_extern", name, mistake.patches, tmp_path)


@pytest.mark.of_examples
@pytest.mark.parametrize("name", MISTAKES)
def test_planted_mistake_is_found(pytester: pytest.Pytester, ir: str, name: str) -> None:
    assert_found(pytester, ir, "example_extern", name, MISTAKES[name], level="standard")


@pytest.mark.once
def test_addons_of_one_export_are_not_those_of_the_next(tmp_path: Path, ir: str) -> None:
    """TVM appends the files of an export to the list of addons that it is given."""
    code = """
import importlib, sys
executables = importlib.import_module("pytest_byoc.ir.%s_executables" % sys.argv[1])

class Library:
    def export_library(self, path, addons):
        addons.append(path)

options = {"addons": ["kernels.o"]}
executables.VMExecutable(Library()).export("lib.so", options)
assert options == {"addons": ["kernels.o"]}
"""
    done = python(code, ir)
    assert done.returncode == 0, done.stderr
