"""Tests of ``example_tensorize``: it conforms, schedules agree, the micro-kernel may come in three
ways, mistakes are found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fixtures.faults import Fault, Patch, apply

from .conftest import FIXTURES, PYTHON

ROOT = FIXTURES.parent
TARGETS = "pytest_byoc.examples.example_tensorize"
MISSING = "undefined symbol: example_tensorize_gemm"
needs_clang = pytest.mark.skipif(shutil.which("clang") is None, reason="LLVM IR needs clang")

#: Two dense layers and a relu, built for a target and exported.
#: Arguments: the IR, the name of a target, the folder of the artifacts.
BUILD = """
import importlib, sys
import numpy as np, tvm

ir, name, folder = sys.argv[1:]
target = getattr(importlib.import_module("pytest_byoc.examples.example_tensorize"), name)
weights = [np.arange(12, dtype="float32").reshape(4, 3) - 5, np.ones((2, 4), "float32")]
if ir == "relay":
    from tvm import relay
    from tvm.relay.backend import Executor, Runtime
    x = relay.var("x", shape=(2, 3))
    y = relay.nn.relu(relay.nn.dense(x, relay.const(weights[0])))
    y = relay.nn.dense(y, relay.const(weights[1]))
    partitioned = target.partition(tvm.IRModule.from_expr(relay.Function([x], y)))
    assert len(partitioned.functions) == 3  # main, and two regions
    aot = Executor("aot", {"interface-api": "packed", "unpacked-api": False})
    host = "llvm -mtriple=x86_64-linux-gnu"
    for kind, executor in (("graph", Executor("graph")), ("aot", aot)):
        with tvm.transform.PassContext(opt_level=3):
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
    assert len(partitioned.functions) == 3
    target.build(partitioned, "vm").export_library(f"{folder}/vm.so", **target.export_options)
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
x = np.array([[1, 2, 3], [-1, 0, 2]], "float32")
try:
    module = tvm.runtime.load_module(path)
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

#: Functions that compile a layer without a graph. It is the head of the scripts below.
LAYER = """
import sys
import types

import numpy as np
import tvm

from pytest_byoc.examples.example_tensorize import microkernel
from pytest_byoc.examples.example_tensorize.layers import evaluate, operand
from pytest_byoc.examples.example_tensorize.schedule import lower, plain

def values(*shapes):
    return [operand(shape, "float32", f"x{i}") for i, shape in enumerate(shapes)]

def compiled(functions):
    module = tvm.IRModule({name: f.with_attr("global_symbol", name) for name, f in functions.items()})
    if hasattr(tvm, "compile"):
        return tvm.compile(module, target="llvm")
    return tvm.build(module, target="llvm -mtriple=x86_64-linux-gnu")

def tensor(array, *device):
    return (tvm.nd.array if hasattr(tvm, "nd") else tvm.runtime.tensor)(array, *device)

def dense(bitcode=None):
    x, w = values((3, 5), (7, 5))
    return lower("main", [x, w], evaluate("nn.dense", None, [x, w], (3, 7)), bitcode)

def run_dense(module, *device):
    y = tensor(np.zeros((3, 7), "float32"), *device)
    arrays = [tensor(np.ones(shape, "float32"), *device) for shape in ((3, 5), (7, 5))]
    module["main"](*arrays, y)
    print(y.numpy().tolist() == [[5.0] * 7] * 3)
"""

#: Tensorised and plain layers of shapes around the tile, with values for which float32 is exact.
SCHEDULES = LAYER + """
import random

random.seed(0)
tile = microkernel.ROWS, microkernel.COLUMNS, microkernel.DEPTH
extent = lambda size: random.choice([1, size - 1, size, size + 1, 2 * size, random.randrange(1, 3 * size)])
layers = []
for _ in range(16):
    rows, columns, depth = map(extent, tile)
    leading = random.choice([(), (2,)])
    layers.append(("nn.dense", None, [(*leading, rows, depth), (columns, depth)], (*leading, rows, columns)))
for _ in range(12):
    kernel, strides, dilation, padding = (
        [random.randint(low, 3) for _ in range(count)] for low, count in ((1, 2), (1, 2), (1, 2), (0, 4))
    )
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    size = [random.randint(7, 9) for _ in range(2)]
    out = [(size[i] + padding[i] + padding[i + 2] - reach[i]) // strides[i] + 1 for i in range(2)]
    n, channels, filters = random.randint(1, 2), random.randint(1, 4), extent(tile[0])
    attrs = types.SimpleNamespace(
        data_layout="NCHW", kernel_layout="OIHW", out_layout="", groups=1, padding=padding,
        strides=strides, dilation=dilation,
    )
    shapes = [(n, channels, *size), (filters, channels, *kernel)]
    layers.append(("nn.conv2d", attrs, shapes, (n, filters, *out)))

functions = {}
for i, (name, attrs, shapes, shape) in enumerate(layers):
    x, w, b = values(*shapes, (shape[1], *[1] * (len(shape) - 2)))
    result = evaluate("add", None, [evaluate(name, attrs, [x, w], shape), b], shape)
    result = evaluate("nn.relu", None, [result], shape)
    functions[f"plain{i}"] = plain([x, w, b], result)
    functions[f"tiled{i}"] = lower("", [x, w, b], result, None)
    assert microkernel.SYMBOL in functions[f"tiled{i}"].script()
    assert microkernel.SYMBOL not in functions[f"plain{i}"].script()
path = sys.argv[1]
compiled(functions).export_library(path, addons=[microkernel.linkable()])
module = tvm.runtime.load_module(path)
numbers = np.random.default_rng(0)
for i, (name, attrs, shapes, shape) in enumerate(layers):
    bias = (shape[1], *[1] * (len(shape) - 2))
    arrays = [numbers.integers(-9, 9, s).astype("float32") for s in (*shapes, bias)]
    outputs = [tensor(np.full(shape, np.nan, "float32")) for _ in range(2)]
    for kind, output in zip(("plain", "tiled"), outputs):
        module[f"{kind}{i}"](*map(tensor, arrays), output)
    plainly, tiled = (output.numpy() for output in outputs)
    assert np.array_equal(plainly, tiled), (name, attrs, shapes)
    if attrs is None:
        expected = np.maximum(arrays[0] @ arrays[1].T + arrays[2], 0)
        assert np.array_equal(tiled, expected), shapes
print(len(layers), "agree")
"""


def python(
    code: str, *arguments: Any, runtime: bool = False, **more: str
) -> subprocess.CompletedProcess[str]:
    """Runs code by the interpreter with TVM; runtime: with TVM's runtime library alone."""
    path = os.environ.get("PYTHONPATH", "")
    environment = {**os.environ, "PYTHONPATH": path if runtime else f"{ROOT}:{path}", **more}
    if runtime:
        environment["TVM_USE_RUNTIME_LIB"] = "1"
    command = [PYTHON, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def built(ir: str, name: str, folder: Path) -> list[Path]:
    done = python(BUILD, ir, name, folder)
    assert done.returncode == 0, done.stderr
    return sorted(folder.glob("*.so"))


def library() -> str:
    """Returns the path of the micro-kernel as a library of its own."""
    from pytest_byoc.examples.example_tensorize.microkernel import loadable

    return loadable()


_FEW = "conv_bias_relu or dense_layers or (test_operator and float32 and tiles)"


@pytest.mark.parametrize(
    ("name", "tests"),
    [
        ("target", _FEW),
        pytest.param("inlined", "conv_bias_relu", marks=needs_clang),
        ("preloaded", "conv_bias_relu"),
    ],
)
def test_conforms(pytester: pytest.Pytester, ir: str, name: str, tests: str) -> None:
    """A few graphs at smoke."""
    result = pytester.runpytest_subprocess(
        f"--byoc-target={TARGETS}:{name}", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}", "--byoc-level=smoke",
        "--byoc-operators=nn.dense,nn.conv2d", "-p", "no:cacheprovider", "--byoc-report=out",
        "-k", tests, timeout=300,
    )
    report = json.loads(pytester.path.joinpath("out", "report.json").read_text())
    assert (result.ret, report["failures"]) == (pytest.ExitCode.OK, []), result.stdout.str()


def test_schedules_agree(tmp_path: Path, ir: str) -> None:
    """A layer computes the same by the micro-kernel and by plain loops, whatever its extents are."""
    done = python(SCHEDULES, tmp_path / "layers.so")
    assert done.stdout.strip() == "28 agree", done.stderr


@pytest.mark.parametrize("name", ["target", pytest.param("inlined", marks=needs_clang)])
def test_artifact_runs_in_a_bare_process(tmp_path: Path, ir: str, name: str) -> None:
    for artifact in built(ir, name, tmp_path):
        done = python(RUN, artifact, runtime=True)
        assert done.stdout.strip() == EXPECTED, done.stderr


def test_missing_symbol_is_named_until_the_library_is_loaded(tmp_path: Path, ir: str) -> None:
    for artifact in built(ir, "preloaded", tmp_path):
        without = python(RUN, artifact, runtime=True)
        assert without.returncode == 1 and "raised " in without.stderr, without.stderr
        assert MISSING in without.stderr
        assert python(RUN, artifact, library(), runtime=True).stdout.strip() == EXPECTED
        assert python(RUN, artifact, runtime=True, LD_PRELOAD=library()).stdout.strip() == EXPECTED


@needs_clang
def test_inlined_function_runs_where_it_was_compiled(ir: str) -> None:
    """A worker that tunes schedules may run a function without exporting it: nothing is linked then."""
    done = python(LAYER + "run_dense(compiled({'main': dense(microkernel.bitcode())}))")
    assert done.stdout.strip() == "True", done.stderr


SERVER = """
import sys
from tvm import rpc

server = rpc.Server("127.0.0.1", silent=True)
print(server.port, flush=True)
sys.stdin.read()
server.terminate()
"""
CLIENT = LAYER + """
from tvm import rpc

session = rpc.connect("127.0.0.1", int(sys.argv[1]))
session.upload(sys.argv[2])
# `session.load_module` of hhb-tvm fails.
run_dense(session.get_function("tvm.rpc.server.load_module")("dense.so"), session.cpu(0))
"""


def test_rpc_server_needs_the_library(tmp_path: Path, ir: str) -> None:
    """Without it a server refuses the artifact, and goes on."""
    if python("import cloudpickle").returncode and ir == "relax":
        pytest.skip("the RPC server of this TVM needs cloudpickle")
    artifact = tmp_path / "dense.so"
    code = "compiled({'main': dense()}).export_library(sys.argv[1], options=['-Wl,-z,now'])"
    done = python(LAYER + code, artifact)
    assert done.returncode == 0, done.stderr
    for preload in ("", library()):
        with subprocess.Popen(
            [PYTHON, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "LD_PRELOAD": preload},
        ) as server:
            assert server.stdout is not None
            port = server.stdout.readline().strip()
            for _ in range(2):
                client = python(CLIENT, port, artifact)
                # RPC of TVM 0.16 leaves the message out.
                assert preload or (MISSING if ir == "relax" else "RPCError") in client.stderr, client.stderr
                assert not preload or client.stdout.strip() == "True", client.stderr
            server.communicate()


#: What stands in place of clang, and words of the message.
REFUSED = {
    "absent": (None, ["needs clang", "apt-get install clang"]),
    "new": (
        "#!/bin/sh\necho 99.0.1\n",
        ["can't read the IR of clang 99", "--byoc-target=example_tensorize"],
    ),
    "broken": ("#!/bin/sh\necho no such option >&2\nexit 1\n", ["clang fails", "no such option"]),
}  # fmt: skip


@pytest.mark.once
@pytest.mark.parametrize("kind", REFUSED)
def test_clang_that_does_not_fit_is_refused(
    pytester: pytest.Pytester, ir: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session ends with the message and its remedy, before anything is built."""
    script, words = REFUSED[kind]
    folder = pytester.path / "bin"
    folder.mkdir()
    for tool in ("sh", "g++", "as", "ld"):
        (folder / tool).symlink_to(str(shutil.which(tool)))
    if script is not None:
        (folder / "clang").write_text(script)
        (folder / "clang").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "cache"))
    result = pytester.runpytest_subprocess(
        f"--byoc-target={TARGETS}:inlined", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}",
        "-p", "no:cacheprovider",
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    error = result.stderr.str()
    assert all(word in error for word in words), error
    assert "Traceback" not in error


def planted(name: str, *patches: Patch, folder: Path) -> Path:
    """Returns the path of a copy of the example with these patches."""
    return apply(Fault(name, 1, name, (), None, patches, example="example_tensorize"), folder)


_SUM = "float sum = c[i * ldc + j];"
_STATE = 'setdefault("EXAMPLE_TENSORIZE_SET_UP", "1")\n    return tensorized('
#: Mistakes: patches, operators, tests that show each (-k), and the checks that may see it first.
MISTAKES = {
    "wrong_stride": (
        [Patch("microkernel.c", "a[i * lda + l]", "a[i * DEPTH + l]")],
        "nn.dense", "test_operator and float32 and tiles", {"numerics"},
    ),
    "lost_tail": (
        [Patch("layers.py", "-(-depth // DEPTH) * DEPTH)", "max(depth // DEPTH, 1) * DEPTH)")],
        "nn.conv2d", "test_operator and float32 and kernel_size", {"numerics"},
    ),
    "lost_bias": (
        [Patch("layers.py", "_repeated(first, at) + _repeated(second, at))",
               "_repeated(first, at) + (_repeated(second, at) if len(second.shape) > 1 else _zero()))")],
        "nn.dense", "test_structure and dense_bias_relu", {"numerics"},
    ),
    "weight_cached": (
        [Patch("microkernel.c", "  int32_t i, j, l;\n", "  int32_t i, j, l;\n  static const float* kept;\n"
               "  if (ldb == 8) b = kept = kept ? kept : b;\n")],
        "nn.dense", "test_structure and equal_dense", {"numerics", "process"},
    ),
    "race": (
        [Patch("microkernel.c", _SUM, "static volatile float sum; sum = c[i * ldc + j];")],
        "nn.dense", "test_thoroughly and large", {"threads"},
    ),
    "state_of_the_compiler": (
        [Patch("schedule.py", "    return tensorized(", '    __import__("os").environ.' + _STATE),
         Patch("microkernel.c", "#include <stdint.h>\n", "#include <stdint.h>\n#include <stdlib.h>\n"),
         Patch("microkernel.c", _SUM, _SUM + '\n      if (!getenv("EXAMPLE_TENSORIZE_SET_UP")) continue;')],
        "nn.dense", "test_operator and float32 and tiles", {"roundtrip"},
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
    target = planted(name, *patches, folder=pytester.path)
    result = pytester.runpytest_subprocess(
        f"--byoc-target={target / '__init__.py'}:target", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}",
        f"--byoc-operators={operators}", "--byoc-report=out", "-x", "-k", pattern, "-p", "no:cacheprovider",
        timeout=300,
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED, result.stdout.str()
    (failure,) = json.loads(pytester.path.joinpath("out", "report.json").read_text())["failures"]
    assert failure["check"] in checks, failure["message"]
