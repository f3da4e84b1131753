"""What the tests of the example targets share: artifacts in processes of their own, mistakes to plant."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fixtures.faults import Fault, Patch, apply

from .conftest import FIXTURES, PYTHON

ROOT = FIXTURES.parent

#: Builds two dense layers, with a bias and relu between them, or one of them and a reshape, and exports an
#: artifact for each executor. Arguments: the IR, the reference of a target, the folder of the artifacts, the
#: number of regions, the number of rows, "reshape" or "", and the kinds of artifacts of Relay.
BUILD = """
import importlib, sys
import numpy as np, tvm

ir, reference, folder, regions, rows, last, *kinds = sys.argv[1:]
module, name = reference.split(":")
target = getattr(importlib.import_module(module), name)
options = getattr(target, "export_options", {})
weights = [np.arange(12, dtype="float32").reshape(4, 3) - 5, np.ones((2, 4), "float32")]
bias = np.full(4, -1, "float32")
if ir == "relay":
    from tvm import relay
    from tvm.relay.backend import Executor, Runtime
    x = relay.var("x", shape=(int(rows), 3))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, relay.const(weights[0])), relay.const(bias)))
    y = relay.reshape(y, (1, 2, 2)) if last else relay.nn.dense(y, relay.const(weights[1]))
    partitioned = target.partition(tvm.IRModule.from_expr(relay.Function([x], y)))
    host = "llvm -mtriple=x86_64-linux-gnu"
    aot = Executor("aot", {"interface-api": "packed", "unpacked-api": False, "link-params": True})
    for kind in kinds:
        executor = Executor("graph") if kind == "graph" else aot
        with tvm.transform.PassContext(opt_level=3, config={"tir.usmp.enable": kind == "usmp"}):
            library = relay.build(partitioned, target=host, executor=executor, runtime=Runtime("cpp"))
        # Relay appends to the caller's lists.
        copied = {key: list(value) if isinstance(value, list) else value for key, value in options.items()}
        library.export_library(f"{folder}/{kind}.so", **copied)
else:
    from tvm import relax
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType((int(rows), 3), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(x, relax.const(weights[0].T.copy())))
            y = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(y, relax.const(bias)))))
            last = relax.op.reshape(y, (1, 2, 2)) if last else relax.op.matmul(y, relax.const(weights[1].T))
            y = builder.emit_output(builder.emit(last))
        builder.emit_func_output(y)
    partitioned = target.partition(builder.get())
    if hasattr(target, "build"):
        executable = target.build(partitioned, "vm")
    else:
        executable = tvm.compile(relax.transform.RunCodegen()(partitioned), target="llvm")
    executable.export_library(f"{folder}/vm.so", **options)
assert len(partitioned.functions) == 1 + int(regions), partitioned
"""

#: Runs an artifact with nothing but TVM's runtime, and prints the result. Arguments: the artifact, the number
#: of rows, and what is loaded before it: a library, or a file in Python.
RUN = """
import ctypes, importlib.util, os, sys
import numpy as np

path, rows, *before = sys.argv[1:]
for library in before:
    if library.endswith(".py"):
        spec = importlib.util.spec_from_file_location("before", library)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    else:
        ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
import tvm

kind = os.path.basename(path).partition(".")[0]
x = np.array([[1, 2, 3], [-1, 0, 2]], "float32")[: int(rows)]
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
    assert not any(name.startswith("pytest_byoc") for name in sys.modules)
    print(outputs.numpy().tolist())
except Exception as e:
    sys.exit(f"raised {type(e).__name__}: {e}")
"""
#: What `RUN` prints: of two dense layers and two rows.
EXPECTED = "[[44.0, 44.0], [12.0, 12.0]]"
#: The artifacts of Relay: by the graph executor, by AOT, and by AOT with unified static memory planning.
KINDS = ("aot", "graph", "usmp")


def python(
    code: str, *arguments: Any, runtime: bool = False, **more: str
) -> subprocess.CompletedProcess[str]:
    """Runs code by the interpreter with TVM.

    runtime: with TVM's runtime library alone, as far as this TVM has one. more: variables of the
    environment.
    """
    environment = dict(os.environ)
    if runtime:
        environment["TVM_USE_RUNTIME_LIB"] = "1"
    else:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [PYTHON, "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, env={**environment, **more}, capture_output=True, text=True, timeout=300
    )


def built(
    ir: str, reference: str, folder: Path, regions: int = 1, rows: int = 2, last: str = "",
    kinds: tuple[str, ...] = KINDS, **more: str,
) -> list[Path]:
    """Returns the artifacts of a target, one for each executor. The arguments are those of `BUILD`."""
    folder.mkdir(exist_ok=True)
    done = python(BUILD, ir, reference, folder, regions, rows, last, *kinds, **more)
    assert done.returncode == 0, done.stderr
    artifacts = sorted(folder.glob("*.so"))
    assert [artifact.stem for artifact in artifacts] == (sorted(kinds) if ir == "relay" else ["vm"])
    return artifacts


def result_of(artifact: Path, *before: Any, rows: int = 2, **more: str) -> str:
    """Returns what `RUN` prints of an artifact."""
    done = python(RUN, artifact, rows, *before, runtime=True, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def error_of(artifact: Path, *before: Any, rows: int = 2, **more: str) -> str:
    """Returns the error that an artifact raises. Its process does not crash."""
    done = python(RUN, artifact, rows, *before, runtime=True, **more)
    assert done.returncode == 1 and "raised " in done.stderr, done
    return done.stderr


def session(
    pytester: pytest.Pytester, ir: str, target: str, operators: str, tests: str, level: str = "smoke"
) -> pytest.RunResult:
    """Runs a session, which its first failure ends. tests: the expression for -k."""
    return pytester.runpytest_subprocess(
        f"--byoc-target={target}", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}", f"--byoc-level={level}",
        f"--byoc-operators={operators}", "--byoc-report=out", "-p", "no:cacheprovider", "-x", "-k", tests,
        timeout=300,
    )  # fmt: skip


def failures(pytester: pytest.Pytester) -> list[Any]:
    """Returns the failures in the report of `session`."""
    return list(json.loads(pytester.path.joinpath("out", "report.json").read_text())["failures"])


def assert_conforms(pytester: pytest.Pytester, ir: str, target: str, operators: str, tests: str) -> None:
    result = session(pytester, ir, target, operators, tests)
    assert (result.ret, failures(pytester)) == (pytest.ExitCode.OK, []), result.stdout.str()


def assert_refused(
    pytester: pytest.Pytester, ir: str, target: str, *words: str
) -> None:
    """Asserts that the session ends with these words in its message, before anything is built."""
    result = session(pytester, ir, target, "nn.relu", "test_operator")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stderr.str() + result.stdout.str()
    assert all(word in text for word in words), text
    assert "Traceback" not in text


def assert_runtime_is_missed(artifacts: list[Path], example: str, rows: int = 2) -> None:
    """Asserts that artifacts whose packed function is not registered name it, and the remedy."""
    for artifact in artifacts:
        error = error_of(artifact, rows=rows)
        assert f"the global function {example}.run is not registered" in error
        assert f"import {example}'s runtime.py" in error


def assert_stub_is_refused(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch, package: str, stub: tuple[str, str]
) -> None:
    """Asserts that a package that does not fit is refused by the example of its name, when its runtime is
    loaded, and when the target is, with the remedy.

    stub: the text of the package, and words of the message.
    """
    text, words = stub
    runtime = ROOT / "pytest_byoc" / "examples" / f"example_{package}" / "runtime.py"
    pytester.makepyfile(**{package: text})
    done = python(f"import runpy; runpy.run_path({str(runtime)!r})", PYTHONPATH=str(pytester.path))
    assert (done.returncode, words in done.stderr) == (1, True), done.stderr
    monkeypatch.setenv("PYTHONPATH", f"{pytester.path}{os.pathsep}{ROOT}")
    assert_refused(pytester, ir, f"example_{package}", words, f"pip install 'pytest-byoc[{package}]'")


def replaced(place: Path, other: Path | None) -> None:
    """Puts a link to another file, or nothing, in a place."""
    place.unlink(missing_ok=True)
    if other is not None:
        place.symlink_to(other)


def stub_library(
    artifact: Path, path: Path, prefix: str, version: tuple[str, str], without: str, least: int
) -> Path:
    """Compiles a library with the functions that an artifact calls, which do nothing.

    prefix: of their names. version: the name and the C code of the one that tells the version. without: the
    name of one that is left out. least: more functions than that are called.
    """
    undefined = subprocess.run(["nm", "-D", "-u", str(artifact)], capture_output=True, text=True, check=True)
    names = set(re.findall(rf"\b{prefix}\w+", undefined.stdout)) - {version[0], without}
    assert len(names) > least
    source = [*(f"int {name}(void) {{ return 0; }}" for name in sorted(names)), version[1]]
    code = path.parent / "stub.c"
    code.write_text("\n".join(source))
    flags = ["-shared", "-fPIC", f"-Wl,-soname,{path.name}", "-o", str(path)]
    subprocess.run(["gcc", str(code), *flags], check=True)
    return path


@dataclass(frozen=True)
class Mistake:
    """A mistake to be planted in an example.

    operators, tests: what shows it, as an argument of --byoc-operators and of -k. checks: those that
    may find it first. irs: the IRs in which it can be planted.
    """

    patches: list[Patch]
    operators: str
    tests: str
    checks: set[str]
    irs: tuple[str, ...] = ("relay", "relax")


def planted(example: str, name: str, patches: list[Patch], folder: Path) -> Path:
    """Returns the path of a copy of the example with these patches."""
    return apply(Fault(name, 1, name, (), None, tuple(patches), example=example), folder)


def assert_found(
    pytester: pytest.Pytester, ir: str, example: str, name: str, mistake: Mistake, level: str = "smoke"
) -> None:
    """Asserts that a session on the example with a mistake fails, by one of the mistake's checks."""
    if ir not in mistake.irs:
        pytest.skip(f"{name} can be planted in {' and '.join(mistake.irs)} alone")
    target = f"{planted(example, name, mistake.patches, pytester.path) / '__init__.py'}:target"
    result = session(pytester, ir, target, mistake.operators, mistake.tests, level)
    assert result.ret == pytest.ExitCode.TESTS_FAILED, result.stdout.str()
    (failure,) = failures(pytester)
    assert failure["check"] in mistake.checks, failure["message"]
