"""Tests of sessions that are divided among workers, or cut short: no result is lost."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_byoc.generation.systematic import default_case
from pytest_byoc.storage import corpus

from .conftest import interruptible
from .test_corpus import FEW, common, names_of, report, run

#: One IR is enough: the tests examine the host.
pytestmark = pytest.mark.once


def test_divided_sessions_have_the_same_results(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code, counts, cells, cases and failures agree, with graphs that fail, pass and are
    unusable."""
    monkeypatch.setenv("CHANGING", "raises")
    graph = default_case("exp", "float32").graph
    for folder in ("alone", "both"):
        corpus.save(
            pytester.path / folder / "byoc-failures" / f"changing-{ir}-0123456789", graph, "random[exp]"
        )
    pytester.path.joinpath("bad.json").write_text("{")
    args = (
        *FEW[:-1], "not onnx and not 16", "--byoc-max-examples=2",
        "--byoc-corpus=bad.json", "--byoc-fail-under=99",
    )
    one = run(pytester, ir, *args, "--byoc-anew", "--byoc-report=alone")
    two = run(pytester, ir, *args, "--byoc-anew", "--byoc-report=both", "-n", "2")
    assert one.ret == two.ret == pytest.ExitCode.TESTS_FAILED
    counts = [{**r.parseoutcomes(), "deselected": 0} for r in (one, two)]  # pytest-xdist does not count it
    assert counts[0] == counts[1]
    a, b = report(pytester, "alone"), report(pytester, "both")
    assert a["failures"] and a["graphs"] > 10
    same = (
        "schema", "seed", "settings", "target", "ir", "versions", "outcomes", "graphs", "subgraphs", "cells",
        "cases", "failed_checks", "patterns", "fragmentation", "corpus", "onnx", "gate", "excused",
    )
    for key in same:
        assert a[key] == b[key], key
    # Two processes may find one cause in two graphs before either knows the other's.
    assert {c["id"]: c["tests"] for c in a["causes"]} == {c["id"]: c["tests"] for c in b["causes"]}
    assert sorted(a["not_checked"]) == sorted(b["not_checked"])
    for folder, data in (("alone", a), ("both", b)):
        saved = {path.name for path in (pytester.path / folder / "byoc-failures").iterdir()}
        assert saved == {f"changing-{ir}-{f['id']}" for f in data["failures"]}


def start(pytester: pytest.Pytester, ir: str, *args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "pytest", *common(ir), "--byoc-operators=exp,nn.relu", "-v", *args]
    return subprocess.Popen(
        command, cwd=pytester.path, stdout=subprocess.PIPE, text=True, preexec_fn=interruptible,
        start_new_session=True,
    )


def until_failed(process: subprocess.Popen[str], number: int) -> str:
    """Returns the output until `number` tests have failed."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if sum("FAILED" in seen for seen in lines) >= number:
            break
    return "".join(lines)


def test_a_killed_session_leaves_its_saved_failures(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHANGING", "raises")
    process = start(pytester, ir, "-k", "test_operator")
    until_failed(process, 1)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    (folder,) = (pytester.path / "byoc-failures").iterdir()
    words = (folder / "failure.txt").read_text()
    command = next(line for line in words.splitlines() if line.startswith("repeat: ")).split(None, 1)[1]
    repeated = pytester.run(sys.executable, "-m", *shlex.split(command))
    repeated.assert_outcomes(failed=1)
    again = run(pytester, ir, *FEW, "-v", "-x")
    assert names_of(again) == [f"test_corpus[byoc-failures/{folder.name}]"]
    assert again.ret == pytest.ExitCode.TESTS_FAILED


def to_one(process: subprocess.Popen[str]) -> None:
    """Sends Ctrl-C to the process that was started."""
    os.kill(process.pid, signal.SIGINT)


def term_to_one(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGTERM)


def term_to_all(process: subprocess.Popen[str]) -> None:
    """Ends the process group as a CI system ends a job: the workers of pytest-xdist get the signal,
    too."""
    os.killpg(process.pid, signal.SIGTERM)


@pytest.mark.parametrize(
    ("send", "workers"),
    [(to_one, ("-n", "2")), (term_to_one, ()), (term_to_all, ("-n", "2"))],
    ids=["xdist", "terminated", "terminated-xdist"],
)
def test_an_interrupted_session_writes_its_report(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch,
    send: Callable[[subprocess.Popen[str]], None], workers: tuple[str, ...],
) -> None:
    monkeypatch.setenv("CHANGING", "raises")
    args = ("-k", "test_operator", "--byoc-report=out", "--byoc-waivers=w.toml")
    waiver = '[[waiver]]\ncheck = "offload"\ncase = "none"\nreason = "fits nothing"\n'
    pytester.path.joinpath("w.toml").write_text(waiver)
    process = start(pytester, ir, *args, *workers)
    seen = until_failed(process, 2)
    time.sleep(0.5)
    send(process)
    rest = process.communicate(timeout=120)[0]
    assert process.returncode == pytest.ExitCode.INTERRUPTED, seen + rest
    data = report(pytester)
    assert data["gate"] == {"exit": 2, "problems": [], "notes": []}
    assert "everything left when the session was interrupted" in data["not_checked"]
    assert data["outcomes"]["error"] >= 2
    (failure,) = data["failures"]
    assert failure["count"] >= 2 and Path(failure["graph"]).is_file()


#: A plugin that interrupts the fourth test's report at a code position without a line number;
#: CPython 3.11 has such positions where a signal arrives.
INTERRUPTING = """
import pytest
reports = 0
code = compile("raise KeyboardInterrupt", "interrupting", "exec").replace(co_linetable=b"")

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(call):
    global reports
    reports += call.when == "call"
    if reports == 4:
        exec(code)
"""


def test_an_interrupt_at_a_position_without_a_line_number(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHANGING", "raises")
    pytester.makepyfile(interrupting=INTERRUPTING)
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    few = ("--byoc-operators=exp", "-k", "test_operator", "--byoc-report=out")
    result = run(pytester, ir, "-p", "interrupting", *few)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["!*KeyboardInterrupt*!"])
    assert report(pytester)["gate"]["exit"] == 2
