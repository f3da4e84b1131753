"""Fixtures and helpers that the project's own tests share."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
import pytest

from pytest_byoc.config.declarations import TargetDeclaration, declare
from pytest_byoc.config.levels import LEVELS
from pytest_byoc.config.settings import Settings
from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.examination.client import Worker
from pytest_byoc.examination.partitions import Partitions
from pytest_byoc.generation.builder import Builder

pytest_plugins = ["pytester"]

# pytester gives each test its own home folder; the cached ONNX node tests are the same for all
# tests.
os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))

#: Largest address space of a job, in bytes.
MEMORY_BYTES = 4 << 30
#: The interpreter with TVM; the environments of tox set it.
PYTHON = os.environ.get("BYOC_TEST_PYTHON") or sys.executable
#: Whether ONNX's reference evaluator has the operators the tests need; with an old TVM it is too
#: old.
NEW_ONNX = tuple(map(int, onnx.__version__.split(".")[:2])) >= (1, 17)
needs_new_onnx = pytest.mark.skipif(not NEW_ONNX, reason="this version's reference evaluator lacks it")
#: A vendor's own tests: a graph of nn.relu, which example_c offloads, and one of sign, which it
#: does not.
RELU_AND_SIGN = """\
import pytest_byoc as byoc

ROWS = byoc.TensorType((3, 5), "float32")

def graph(operator):
    node = byoc.Node(operator, inputs=("x0",), attrs={}, outputs=("v0",), types=(ROWS,))
    return byoc.Graph((byoc.Source("x0", ROWS),), constants=(), nodes=(node,), outputs=("v0",))

def test_relu(byoc_check):
    byoc_check(graph("nn.relu"))

def test_sign(byoc_check):
    byoc_check(graph("sign"))
"""
FIXTURES = Path(__file__).parent.parent / "fixtures"


@functools.cache
def available_ir() -> str | None:
    """Returns the IR of the tests' TVM, or None without a TVM."""
    code = (
        "import tvm\n"
        "v = tuple(int(p) for p in tvm.__version__.split('.')[:2])\n"
        "print('relax' if v >= (0, 25) else 'relay')"
    )
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


@pytest.fixture(scope="session")
def ir() -> str:
    """Returns the IR under test. Tests that need TVM use this fixture: without TVM they are
    skipped, or fail if BYOC_TEST_IR names an IR."""
    available = available_ir()
    wanted = os.environ.get("BYOC_TEST_IR")
    if wanted and available != wanted:
        pytest.fail(f"BYOC_TEST_IR is {wanted}, but {PYTHON} has {available or 'no TVM'}")
    if available is None:
        pytest.skip(f"{PYTHON} has no TVM")
    return available


@pytest.fixture
def here(ir: str) -> None:
    """Skips where the tests' interpreter is not the workers': pages name no --byoc-python."""
    if Path(PYTHON).absolute() != Path(sys.executable).absolute():
        pytest.skip("the tests' interpreter has no TVM")


def interruptible() -> None:
    """Restores the default SIGINT handler in a child process; a shell's background jobs ignore
    SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def make_settings(tmp: Path, timeout: float = 30.0, **more: Any) -> Settings:
    return Settings(
        targets=(), operators=(), level=LEVELS["standard"], max_examples=1, max_nodes=5, timeout=timeout,
        memory_bytes=1 << 30, report=None, replay=(), failures=tmp / "failures", **more,
    )


def several_outputs() -> Graph:
    """Returns a graph whose outputs are two results of one node, one value twice, an input and a
    constant."""
    b = Builder(seed=3)
    x = b.input(TensorType((2, 6), "float32"))
    c = b.constant(TensorType((), "float32"))
    y = b.simple("nn.relu", b.node("add", [x, c], {})[0])
    p, q = b.node("split", [y], {"axis": 1, "indices_or_sections": (2,)})
    return b.graph(b.simple("tanh", p), q, q, x, c)


def declaration(reference: str, ir: str | None) -> TargetDeclaration:
    """Returns the declaration of a target that the tests' interpreter runs."""
    return declare(reference, Path.cwd(), ir, PYTHON, Path.cwd())


@pytest.fixture(scope="session")
def tvm_python(ir: str) -> str:
    """Returns the path of the interpreter that holds the tests' TVM."""
    return PYTHON


@pytest.fixture(scope="session")
def reference_worker(ir: str) -> Iterator[Worker]:
    worker = Worker(PYTHON, {"role": "reference", "ir": ir, "memory": MEMORY_BYTES}, 60.0)
    worker.start()
    worker.ready()
    yield worker
    worker.stop()


@contextmanager
def partitions_of(
    name: str, reference: str, ir: str, options: Mapping[str, Any] | None = None
) -> Iterator[Partitions]:
    """Starts the worker of a target, and yields its partitions. options: of its declaration."""
    target = {"name": name, "reference": reference, "options": options or {}}
    config = {"role": "target", "ir": ir, "memory": MEMORY_BYTES, "libraries": [], "sys_path": []}
    worker = Worker(PYTHON, {**config, "target": target}, 60.0)
    worker.start()
    try:
        worker.ready()
        yield Partitions(worker)
    finally:
        worker.stop()
