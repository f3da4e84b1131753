"""Tests of ``example_extern``: it conforms, its library may come in three ways, mistakes are found."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fixtures.faults import Fault, Patch, apply
from pytest_byoc.examples.example_extern.library import find

from .conftest import FIXTURES, PYTHON

try:
    LIBRARY = find()
except ImportError as e:
    pytest.skip(str(e), allow_module_level=True)

ROOT = FIXTURES.parent

#: Two dense layers and a relu, built for a target and exported.
#: Arguments: the IR, the reference of a target, the folder of the artifacts.
BUILD = """
import importlib, sys
import numpy as np, tvm

ir, reference, folder = sys.argv[1:]
module, name = reference.split(":")
target = getattr(importlib.import_module(module), name)
weights = [np.arange(12, dtype="float32").reshape(4, 3) - 5, np.ones((2, 4), "float32")]
if ir == "relay":
    from tvm import relay
    from tvm.relay.backend import Executor, Runtime
    x = relay.var("x", shape=(2, 3))
    y = relay.nn.relu(relay.nn.dense(x, relay.const(weights[0])))
    y = relay.nn.dense(y, relay.const(weights[1]))
    partitioned = target.partition(tvm.IRModule.from_expr(relay.Function([x], y)))
    assert len(partitioned.functions) == 2  # main, and one region
    host = "llvm -mtriple=x86_64-linux-gnu"
    aot = Executor("aot", {"interface-api": "packed", "unpacked-api": False, "link-params": True})
    graph = Executor("graph")
    for kind, executor, usmp in (("graph", graph, False), ("aot", aot, False), ("usmp", aot, True)):
        with tvm.transform.PassContext(opt_level=3, config={"tir.usmp.enable": usmp}):
            library = relay.build(partitioned, target=host, executor=executor, runtime=Runtime("cpp"))
        # Relay appends to the caller's lists.
        options = {key: list(value) for key, value in target.export_options.items()}
        library.export_library(f"{folder}/{kind}.so", **options)
else:
    from tvm import relax
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(x, relax.const(weights[0].T)))
            y = builder.emit(relax.op.matmul(builder.emit(relax.op.nn.relu(y)), relax.const(weights[1].T)))
            y = builder.emit_output(y)
        builder.emit_func_output(y)
    partitioned = target.partition(builder.get())
    assert len(partitioned.functions) == 2
    executable = target.build(partitioned, "vm")
    executable.export_library(f"{folder}/vm.so", **target.export_options)
"""

#: Runs an artifact with nothing but TVM's runtime. Arguments: the artifact, a library to load first.
RUN = """
import ctypes, os, sys
import numpy as np

path, *libraries = sys.argv[1:]
for library in libraries:
    ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
import tvm

kind = os.path.basename(path).partition(".")[0]
module = tvm.runtime.load_module(path)
x = np.array([[1, 2, 3], [-1, 0, 2]], "float32")
try:
    if kind == "vm":
        from tvm.runtime.vm import VirtualMachine
        outputs = VirtualMachine(module, tvm.cpu())["main"](tvm.runtime.tensor(x))
    else:
        from tvm.contrib.graph_executor import GraphModule
        from tvm.runtime.executor import AotModule
        executor = (GraphModule if kind == "graph" else AotModule)(module["default"](tvm.cpu()))
        executor.set_input("x", x)
        executor.run()
        outputs = executor.get_output(0)
    print(outputs.numpy().tolist())
except Exception as e:
    sys.exit(f"raised {type(e).__name__}: {e}")
"""
EXPECTED = "[[46.0, 46.0], [15.0, 15.0]]"


def python(
    code: str, *arguments: Any, runtime: bool = False, **more: str
) -> subprocess.CompletedProcess[str]:
    """Runs code by the interpreter with TVM; runtime: with TVM's runtime library alone."""
    environment = {**os.environ, "PYTHONPATH": "" if runtime else str(ROOT), **more}
    if runtime:
        environment["TVM_USE_RUNTIME_LIB"] = "1"
    command = [PYTHON, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def built(ir: str, reference: str, folder: Path, **more: str) -> list[Path]:
    folder.mkdir(exist_ok=True)
    done = python(BUILD, ir, reference, folder, **more)
    assert done.returncode == 0, done.stderr
    return sorted(folder.glob("*.so"))


def test_conforms(pytester: pytest.Pytester, ir: str) -> None:
    """A few graphs at smoke; two dense layers become one region."""
    result = pytester.runpytest_subprocess(
        "--byoc-target=example_extern", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}", "--byoc-level=smoke",
        "--byoc-operators=nn.dense,nn.bias_add", "-p", "no:cacheprovider", "--byoc-report=out",
        "-k", "dense_layers or dense_bias_relu or (test_operator and float64)", timeout=300,
    )
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert (result.ret, report["failures"]) == (pytest.ExitCode.OK, []), result.stdout.str()


def test_linked_artifact_runs_in_a_bare_process(tmp_path: Path, ir: str) -> None:
    """In Relay under the graph executor and AOT, the latter with static memory planning too."""
    artifacts = built(ir, "pytest_byoc.examples.example_extern:target", tmp_path)
    assert [a.stem for a in artifacts] == (["aot", "graph", "usmp"] if ir == "relay" else ["vm"])
    for artifact in artifacts:
        done = python(RUN, artifact, runtime=True)
        assert done.stdout.strip() == EXPECTED, done.stderr


def test_missing_symbol_is_named_until_the_library_is_loaded(tmp_path: Path, ir: str) -> None:
    for artifact in built(ir, "pytest_byoc.examples.example_extern:preloaded", tmp_path):
        without = python(RUN, artifact, runtime=True)
        assert without.returncode == 1 and "raised " in without.stderr, without.stderr
        assert "example_extern: cblas_sgemm is missing" in without.stderr
        for way in ("Link its library into the artifact", "with RTLD_GLOBAL before", "compile its source"):
            assert way in without.stderr
        assert python(RUN, artifact, LIBRARY, runtime=True).stdout.strip() == EXPECTED


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
    target = planted("with_source", patch, folder=tmp_path)
    (target / "plain_blas.c").write_text(PLAIN_BLAS)
    for artifact in built(ir, f"{target.name}:preloaded", tmp_path / "out", PYTHONPATH=str(target.parent)):
        done = python(RUN, artifact, runtime=True)
        assert done.stdout.strip() == EXPECTED, done.stderr


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
    result = pytester.runpytest_subprocess(
        "--byoc-target=example_extern", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}", "-p", "no:cacheprovider"
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    error = result.stderr.str()
    assert words in error and "libopenblas-dev" in error and "EXAMPLE_EXTERN_CBLAS" in error
    assert "Traceback" not in error


def planted(name: str, *patches: Patch, folder: Path) -> Path:
    """Returns the path of a copy of the example with these patches."""
    return apply(Fault(name, 1, name, (), None, patches, example="example_extern"), folder)


_GETENV = "#ifdef __cplusplus\nextern \"C\" {\n#endif\nchar* getenv(const char*);\n"
#: Mistakes: patches, operators, tests that show each (-k), and the checks that may see it first.
MISTAKES = {
    "wrong_stride": (
        [Patch("kernels.c", "b + i * stride_b", "b + i * stride_a")],
        {"relay": "nn.batch_matmul", "relax": "matmul"},
        "test_operator and float32 and (right_stack or columns_one)", {"numerics"},
    ),
    "lost_bias": (
        [Patch("kernels.c", "a[i + j] + b[j]", "a[i + j] + (period < size ? 0 : b[j])")],
        "nn.dense", "test_structure and dense_bias_relu", {"numerics"},
    ),
    "weight_cached": (
        [Patch("kernels.c", "  int64_t i;\n", "  int64_t i;\n  static const float* kept;\n"
               "  b = kept = kept ? kept : b;\n")],
        "nn.dense", "test_structure and equal_dense", {"numerics"},
    ),
    "race": (
        [Patch("kernels.c", "  int64_t i;\n", "  int64_t i;\n  static float scratch[1 << 16];\n"
               "  float* const result = c;\n  const uint64_t bytes = sizeof *c * stack * m * n;\n"
               "  if (bytes <= sizeof scratch) c = scratch;\n"),
         Patch("kernels.c", "c + i * m * n, n);\n", "c + i * m * n, n);\n"
               "  if (c != result) __builtin_memcpy(result, c, bytes);\n")],
        "nn.dense", "test_thoroughly and large", {"threads"},
    ),
    "state_of_the_compiler": (
        [Patch("steps.py", "    is_new = ", '    __import__("os").environ["EXAMPLE_EXTERN_SET_UP"] = "1"\n'
               "    is_new = "),
         Patch("kernels.c", '#ifdef __cplusplus\nextern "C" {\n#endif\n', _GETENV),
         Patch("kernels.c", "n, k, 1,\n", 'n, k, getenv("EXAMPLE_EXTERN_SET_UP") ? 1 : 0,\n')],
        "nn.dense", "test_operator and float32", {"roundtrip"},
    ),
}  # fmt: skip


@pytest.mark.once
def test_mistakes_can_be_planted(tmp_path: Path) -> None:
    for name, (patches, *_) in MISTAKES.items():
        planted(name, *patches, folder=tmp_path)


@pytest.mark.of_examples
@pytest.mark.parametrize("name", MISTAKES)
def test_planted_mistake_is_found(pytester: pytest.Pytester, ir: str, name: str) -> None:
    patches, operators, pattern, checks = MISTAKES[name]
    operators = operators if isinstance(operators, str) else operators[ir]
    target = planted(name, *patches, folder=pytester.path)
    result = pytester.runpytest_subprocess(
        f"--byoc-target={target / '__init__.py'}:target", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}",
        f"--byoc-operators={operators}", "--byoc-report=out", "-x", "-k", pattern, "-p", "no:cacheprovider",
        timeout=300,
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED, result.stdout.str()
    (failure,) = json.loads(pytester.path.joinpath("out", "report.json").read_text())["failures"]
    assert failure["check"] in checks, failure["message"]


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
