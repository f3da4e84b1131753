"""Tests of ``example_tensorize``: it conforms, schedules agree, the micro-kernel may come in three
ways, mistakes are found."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
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
    result_of,
)

EXAMPLE = "pytest_byoc.examples.example_tensorize"
MISSING = "undefined symbol: example_tensorize_gemm"
needs_clang = pytest.mark.skipif(shutil.which("clang") is None, reason="LLVM IR needs clang")

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


def library() -> str:
    """Returns the path of the micro-kernel as a library of its own."""
    from pytest_byoc.examples.example_tensorize.microkernel import loadable

    return loadable()


_FEW = "convolution_patterns or product_patterns or (test_operator and float32 and tiles)"


@pytest.mark.parametrize(
    ("name", "tests"),
    [
        ("target", _FEW),
        pytest.param("inlined", "convolution_patterns", marks=needs_clang),
        ("preloaded", "convolution_patterns"),
    ],
)
def test_conforms(pytester: pytest.Pytester, ir: str, name: str, tests: str) -> None:
    """A few graphs at smoke."""
    assert_conforms(pytester, ir, f"{EXAMPLE}:{name}", "nn.dense,nn.conv2d", tests)


def test_schedules_agree(tmp_path: Path, ir: str) -> None:
    """A layer computes the same by the micro-kernel and by plain loops, whatever its extents are."""
    done = python(SCHEDULES, tmp_path / "layers.so")
    assert done.stdout.strip() == "28 agree", done.stderr


@pytest.mark.parametrize("name", ["target", pytest.param("inlined", marks=needs_clang)])
def test_artifact_runs_in_a_bare_process(tmp_path: Path, ir: str, name: str) -> None:
    artifacts = built(ir, f"{EXAMPLE}:{name}", tmp_path, regions=2, kinds=("aot", "graph"))
    assert {result_of(artifact) for artifact in artifacts} == {EXPECTED}


def test_missing_symbol_is_named_until_the_library_is_loaded(tmp_path: Path, ir: str) -> None:
    for artifact in built(ir, f"{EXAMPLE}:preloaded", tmp_path, regions=2, kinds=("aot", "graph")):
        assert MISSING in error_of(artifact)
        assert result_of(artifact, library()) == EXPECTED
        assert result_of(artifact, LD_PRELOAD=library()) == EXPECTED


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
            env={**os.environ, "LD_PRELOAD": preload}, start_new_session=True,
        ) as server:
            try:
                assert server.stdout is not None
                port = server.stdout.readline().strip()
                clients = [python(CLIENT, port, artifact) for _ in range(2)]
            finally:
                # Processes that it leaves behind would keep its output open, and this test waiting.
                os.killpg(server.pid, signal.SIGKILL)
        for client in clients:
            # RPC of TVM 0.16 leaves the message out.
            assert preload or (MISSING if ir == "relax" else "RPCError") in client.stderr, client.stderr
            assert not preload or client.stdout.strip() == "True", client.stderr


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
    assert_refused(pytester, ir, f"{EXAMPLE}:inlined", *words)


_SUM = "float sum = c[i * ldc + j];"
_STATE = 'setdefault("EXAMPLE_TENSORIZE_SET_UP", "1")\n    return tensorized('
MISTAKES = {
    "wrong_stride": Mistake(
        [Patch("microkernel.c", "a[i * lda + l]", "a[i * DEPTH + l]")],
        "nn.dense", "test_operator and float32 and tiles", {"numerics"},
    ),
    "lost_tail": Mistake(
        [Patch("layers.py", "-(-depth // DEPTH) * DEPTH)", "max(depth // DEPTH, 1) * DEPTH)")],
        "nn.conv2d", "test_operator and float32 and kernel_size", {"numerics"},
    ),
    "lost_bias": Mistake(
        [Patch("layers.py", "_repeated(first, at) + _repeated(second, at))",
               "_repeated(first, at) + (_repeated(second, at) if len(second.shape) > 1 else _zero()))")],
        "nn.dense", "test_structure and product_patterns", {"numerics"},
    ),
    "weight_cached": Mistake(
        [Patch("microkernel.c", "  int32_t i, j, l;\n", "  int32_t i, j, l;\n  static const float* kept;\n"
               "  if (ldb == 8) b = kept = kept ? kept : b;\n")],
        "nn.dense", "test_structure and weights_alike", {"numerics", "process"},
    ),
    "race": Mistake(
        [Patch("microkernel.c", _SUM, "static volatile float sum; sum = c[i * ldc + j];")],
        "nn.dense", "test_thoroughly and large", {"threads"},
    ),
    "state_of_the_compiler": Mistake(
        [Patch("schedule.py", "    return tensorized(", '    __import__("os").environ.' + _STATE),
         Patch("microkernel.c", "#include <stdint.h>\n", "#include <stdint.h>\n#include <stdlib.h>\n"),
         Patch("microkernel.c", _SUM, _SUM + '\n      if (!getenv("EXAMPLE_TENSORIZE_SET_UP")) continue;')],
        "nn.dense", "test_operator and float32 and tiles", {"roundtrip"},
    ),
}  # fmt: skip


@pytest.mark.once
def test_mistakes_can_be_planted(tmp_path: Path) -> None:
    for name, mistake in MISTAKES.items():
        planted("example_tensorize", name, mistake.patches, tmp_path)


@pytest.mark.of_examples
@pytest.mark.parametrize("name", MISTAKES)
def test_planted_mistake_is_found(pytester: pytest.Pytester, ir: str, name: str) -> None:
    assert_found(pytester, ir, "example_tensorize", name, MISTAKES[name], level="standard")
