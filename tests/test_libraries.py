"""Tests of files that a target needs beside its code: Python files and libraries of its runtime."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pytest_byoc.examination.client import Worker, WorkerError
from pytest_byoc.plugin.opening_targets import _in_words

from .conftest import FIXTURES, PYTHON
from .test_corpus import report as report_of

TARGET = FIXTURES / "targets" / "python_runtime.py"
FUNCTIONS = FIXTURES / "targets" / "python_runtime_functions.py"


def run(pytester: pytest.Pytester, ir: str, target: str, selected: str) -> tuple[pytest.RunResult, Any]:
    """Runs a session on nn.relu; returns its result and its report."""
    result = pytester.runpytest_subprocess(
        f"--byoc-target={target}", f"--byoc-ir={ir}", f"--byoc-python={PYTHON}", "--byoc-operators=nn.relu",
        "-p", "no:cacheprovider", "--byoc-report=out", "-k", selected, timeout=300,
    )
    return result, report_of(pytester)


def declare(pytester: pytest.Pytester, more: str = "") -> None:
    """Declares a target called mine whose runtime is a file that also runs the code `more` when
    imported."""
    pytester.path.joinpath("functions.py").write_text(FUNCTIONS.read_text() + more)
    pytester.makepyprojecttoml(
        f"""
        [tool.pytest-byoc.targets.mine]
        partition = "{TARGET}:WithoutRuntime"
        runtime-libraries = "functions.py"
        """
    )


@pytest.mark.once
def test_a_runtime_in_python_is_imported_by_the_loader(pytester: pytest.Pytester, ir: str) -> None:
    """All checks are made on this graph; without the file the artifact must raise an error."""
    result, report = run(pytester, ir, f"{TARGET}:target", "test_thoroughly and host_between")
    assert (result.ret, report["failures"]) == (pytest.ExitCode.OK, [])
    assert "missing-library" not in result.stdout.str()  # it would be among the checks that were not made


@pytest.mark.once
def test_an_undeclared_runtime_fails_in_the_loader(pytester: pytest.Pytester, ir: str) -> None:
    """The failure names the loader; once declared in the script that reproduces the failure, the
    runtime is loaded."""
    result, report = run(pytester, ir, f"{TARGET}:WithoutRuntime", "test_operator and nan and float32")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (failure,) = report["failures"]
    assert failure["check"] == "roundtrip"
    words = "*run raised * in a fresh process (the loader* under the *there is no function*"
    result.stdout.fnmatch_lines([words])
    (script,) = pytester.path.glob("out/byoc-failures/*/reproduce.py")
    command = [PYTHON, str(script)]
    assert subprocess.run(command, capture_output=True, timeout=300).returncode == 1
    declared = f"OPTIONS = {{'runtime_libraries': {str(FUNCTIONS)!r}}}"
    text, count = re.subn(r"^OPTIONS = .*$", declared, script.read_text(), flags=re.M)
    assert count == 1
    script.write_text(text)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "passed", done.stdout + done.stderr


@pytest.mark.once
def test_a_runtime_is_declared_in_a_table(pytester: pytest.Pytester, ir: str) -> None:
    """The path is relative to the project's root, with or without a folder."""
    declare(pytester)
    result, report = run(pytester, ir, "mine", "test_operator and nan and float32")
    assert (result.ret, report["failures"]) == (pytest.ExitCode.OK, [])


@pytest.mark.once
def test_a_runtime_that_starts_threads_is_loaded_in_each_process(pytester: pytest.Pytester, ir: str) -> None:
    """A forked process has no thread of its parent's: waiting for one would never end."""
    waits = (
        "\nimport atexit, queue, threading\nasked, told = queue.Queue(), queue.Queue()\n"
        "threading.Thread(target=lambda: told.put(asked.get()), daemon=True).start()\n"
        "atexit.register(lambda: (asked.put(1), told.get()))\n"
    )
    declare(pytester, waits)
    result, report = run(pytester, ir, "mine", "test_thoroughly and host_between")
    assert (result.ret, report["failures"]) == (pytest.ExitCode.OK, [])
    result.stdout.fnmatch_lines(["*they start threads when they are loaded*"])


@pytest.mark.once
def test_tvm_is_not_blamed_for_effects_of_a_runtime(pytester: pytest.Pytester, ir: str) -> None:
    """LLVM's own artifact runs in a process without the target's runtime."""
    declare(pytester, "\nimport atexit, os\natexit.register(os.abort)\n")
    result, report = run(pytester, ir, "mine", "test_thoroughly and host_between")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (failure,) = report["failures"]
    assert (failure["check"], failure["outcome"], failure["stage"]) == ("exit", "crash", "exit")


@pytest.mark.parametrize(
    "name, words", [("absent.py", "there is no file .*absent.py"), ("broken.py", "no device")]
)
def test_a_runtime_that_does_not_load_is_named(tmp_path: Path, ir: str, name: str, words: str) -> None:
    """The message says that the loader fails to load it, and whether the loader has only TVM's
    runtime."""
    (tmp_path / "broken.py").write_text('raise RuntimeError("no device")\n')
    config = {"role": "loader", "ir": ir, "env": {"TVM_USE_RUNTIME_LIB": "1"}}
    worker = Worker(PYTHON, {**config, "libraries": [str(tmp_path / name)]}, 5.0)
    worker.start()
    with pytest.raises(WorkerError, match=words) as caught:
        worker.ready()
    worker.stop()
    sound = Worker(PYTHON, config, 5.0)
    sound.start()
    alone = sound.ready()["runtime_only"]
    sound.stop()
    text = _in_words("mine", caught.value)
    assert "in the loader, a process that only loads and runs artifacts" in text
    assert ("with TVM's runtime alone" in text) == alone
    assert name == "absent.py" or "library of target mine cannot be loaded: RuntimeError: no device" in text


@pytest.mark.parametrize("there", [True, False])
def test_a_library_that_needs_tvm_is_loaded_after_it(tmp_path: Path, ir: str, there: bool) -> None:
    """A runtime module's library needs TVM, which is missing when libraries are loaded first."""
    of_tvm = {"relay": "TVMGetLastError", "relax": "TVMFFIErrorMoveFromRaised"}[ir]
    symbol = of_tvm if there else "nobody_has_this"
    source, library = tmp_path / "runtime.c", tmp_path / "runtime.so"
    source.write_text(f"extern void {symbol}(void);\nvoid (*needed)(void) = {symbol};\n")
    subprocess.run(["g++", "-x", "c", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    worker = Worker(PYTHON, {"role": "loader", "ir": ir, "libraries": [str(library)]}, 5.0)
    worker.start()
    if there:
        assert "absent" in worker.ready()
    else:
        with pytest.raises(WorkerError, match=r"runtime\.so does not load: .*nobody_has_this"):
            worker.ready()
    worker.stop()


def test_a_library_name_without_a_folder_is_refused(tmp_path: Path, ir: str) -> None:
    worker = Worker(PYTHON, {"role": "loader", "ir": ir, "libraries": ["libvendors_own.so"]}, 5.0)
    worker.start()
    with pytest.raises(WorkerError, match=r"written with its folder: \./libvendors_own\.so"):
        worker.ready()
    worker.stop()
