"""Tests on an emulated aarch64 board, which the environment `board` of tox makes."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from fixtures.faults import Patch
from fixtures.faults.fault import Fault, apply
from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.examination.client import Worker
from pytest_byoc.generation import data
from pytest_byoc.generation.builder import Builder

from .conftest import MEMORY_BYTES, PYTHON
from .far_device import EXAMPLE, report, session

CC = "aarch64-linux-gnu-g++"
#: The loader's command of the board. Relay has none: no wheel holds its runtime for aarch64.
BOARD = os.environ.get("BYOC_TEST_BOARD", "")
#: The number of aarch64 in the header of an ELF file (e_machine).
AARCH64 = 183
on_board = pytest.mark.skipif(not BOARD, reason="needs the board of scripts/emulated_board: tox -e board")
needs_compiler = pytest.mark.skipif(not shutil.which(CC), reason=f"needs {CC}")

#: char is signed on x86 and unsigned on ARM.
SIGN_IN_CHAR = Fault(
    "sign_in_char", 19, "relu keeps the sign in a char", ("nn.relu",), "numerics",
    (
        Patch(
            "kernels.py", 'return f"{x} > {zero} ? {x} : {zero}"',
            'return f"(char)({x} > {zero} ? 1 : -1) > 0 ? {x} : {zero}"',
        ),
    ),
)


def on_the_board(pytester: pytest.Pytester, partition: str, *arguments: str, **more: Any) -> pytest.RunResult:
    keys = {"loader": BOARD, "mtriple": "aarch64-linux-gnu", "cc": CC, "run_here": True}
    return session(pytester, "relax", partition, *arguments, **keys, **more)


@on_board
def test_some_operators_at_smoke(pytester: pytest.Pytester) -> None:
    result = on_the_board(pytester, EXAMPLE, operators="nn.relu,add,matmul")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["target mine, Relax (*, artifacts on aarch64 with python 3.*)"])
    cells = report(pytester)["cells"]
    assert sum(cell["passed"] for cell in cells) > 100 and not any(cell["failed"] for cell in cells)


@on_board
def test_a_fault_that_arm_alone_shows(pytester: pytest.Pytester) -> None:
    target = apply(SIGN_IN_CHAR, pytester.path)
    partition, cases = f"{target / '__init__.py'}:target", ("-x", "-k", "test_operator and nn.relu")
    assert on_the_board(pytester, partition, *cases).ret == pytest.ExitCode.TESTS_FAILED
    failure, *_ = report(pytester)["failures"]
    assert (failure["check"], failure["outcome"]) == ("numerics", "wrong-result")
    here = pytester.runpytest_subprocess(
        f"--byoc-target={partition}", f"--byoc-python={PYTHON}", "--byoc-ir=relax", "--byoc-level=smoke",
        "--byoc-operators=nn.relu", "-p", "no:cacheprovider", *cases, timeout=300,
    )
    assert here.ret == 0


def chain() -> Graph:
    builder = Builder(seed=1)
    x = builder.input(TensorType((2, 3), "float32"))
    return builder.graph(builder.simple("sign", builder.simple("nn.relu", x)))


@needs_compiler
def test_artifacts_are_for_the_device(tmp_path: Path, ir: str) -> None:
    """Up to the link: for each executor, with a region of C and with an operator that LLVM compiles."""
    device = {"mtriple": "aarch64-linux-gnu", "cc": [CC], "foreign": True}
    target = {"name": "example_c", "reference": EXAMPLE, "options": {}}
    config = {"role": "target", "ir": ir, "memory": MEMORY_BYTES, "libraries": [], "sys_path": []}
    worker = Worker(PYTHON, {**config, "target": target, "device": device}, 60.0)
    graph = chain()
    inputs = [data.inputs(graph, which) for which in (0, 1)]
    try:
        worker.start()
        executors = worker.ready()["executors"]
        worker.submit({
            "kind": "examine", "graph": graph.to_dict(), "inputs": inputs, "constants": {}, "merged": False,
            "checks": ["offload", "numerics", "roundtrip"], "executors": executors, "fast_build": False,
            "folder": str(tmp_path), "partition_only": False,
        })
        said = worker.collect()
        assert not said.failed
        artifacts = dict(said.facts("artifact"))
        assert sorted(artifacts) == sorted(executors)
        for path in artifacts.values():
            assert struct.unpack_from("<H", Path(path).read_bytes(), 18) == (AARCH64,)
    finally:
        worker.stop()
