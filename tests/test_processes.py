"""Tests that a process that outlives its job is reported and ended, and that none outlives the
session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.faults import FAULTS, apply
from pytest_byoc.examination.examiner import Examiner
from pytest_byoc.storage import scratch

from .conftest import FIXTURES, PYTHON
from .test_worker import HOSTILE, chain, examiner

SERVING = FIXTURES / "targets" / "serving.py"
_TOKEN = "BYOC_TEST_TOKEN"


class Living:
    """The living processes, except this one, that inherited a variable of the environment."""

    def __init__(self, token: str) -> None:
        self._mark = f"{_TOKEN}={token}".encode()

    def commands(self) -> list[str]:
        return [_read(pid, "cmdline").replace(b"\0", b" ").decode().strip() for pid in self.pids()]

    def pids(self) -> list[int]:
        numbers = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]
        return [pid for pid in numbers if self._mark in _read(pid, "environ").split(b"\0")]

    def are_gone(self, seconds: float = 30.0) -> bool:
        """Returns whether all of them end within `seconds`."""
        deadline = time.monotonic() + seconds
        while self.pids() and time.monotonic() < deadline:
            time.sleep(0.05)
        return not self.pids()


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


@pytest.fixture
def living(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Living:
    monkeypatch.setenv(_TOKEN, str(tmp_path))
    return Living(str(tmp_path))


@pytest.fixture
def opened(living: Living, tmp_path: Path, ir: str, request: pytest.FixtureRequest) -> Iterator[Examiner]:
    e = examiner(tmp_path, f"{HOSTILE}:{request.param}", ir)
    e.open()
    yield e
    e.close()
    assert living.are_gone()


@pytest.mark.once
@pytest.mark.parametrize(
    ("opened", "program"),
    [
        ("leaves_daemon", "sleep 1000"),
        ("leaves_fork", "a forked process called "),
        ("leaves_helper", "sleep 1000"),
        ("chatters", "sh -c while :;"),
    ],
    indirect=["opened"],
)
def test_a_process_left_running_fails_the_target(
    opened: Examiner, program: str, living: Living
) -> None:
    before = len(living.pids())
    # If the partition of several graphs leaves it, nothing is known about any of them.
    graphs = [chain("tanh"), chain("nn.relu", "exp")]
    assert opened.partitions.survey(graphs) == [None, None]
    verdict = opened.examine(graphs[1])
    (finding,) = verdict.findings
    assert finding.identity == "process/error/partition/left-running"
    assert program in finding.message and "stage partition" in finding.message
    assert len(living.pids()) == before
    assert opened.examine(chain("nn.relu", "tanh")).outcome == "pass"


@pytest.mark.once
@pytest.mark.parametrize("opened", ["helper_that_ends", "helper_until_exit", "leaves_pools"], indirect=True)
def test_a_process_that_ends_soon_or_at_exit_is_not_left_running(
    opened: Examiner, living: Living
) -> None:
    before = len(living.pids())
    verdict = opened.examine(chain("nn.relu", "exp"))
    assert verdict.outcome == "pass", verdict.findings
    assert len(living.pids()) == before


@pytest.mark.once
def test_a_process_left_running_by_a_run_is_reported_for_the_run(
    tmp_path: Path, ir: str, living: Living
) -> None:
    target = apply(FAULTS["server_left_running"], tmp_path)
    e = examiner(tmp_path, f"{target / '__init__.py'}:target", ir)
    e.open()
    try:
        verdict = e.examine(chain("nn.relu"))
    finally:
        e.close()
    findings = [(f.identity, f.message) for f in verdict.findings]
    assert {identity for identity, _ in findings} == {"process/error/run/left-running"}
    assert [message.split(" has ended")[0] for _, message in findings] == ["the process", "the fresh process"]


@pytest.mark.once
@pytest.mark.parametrize("opened", ["leaves_and_crashes"], indirect=True)
def test_a_process_left_by_a_crash_is_ended_without_a_finding(opened: Examiner, living: Living) -> None:
    before = len(living.pids())
    (finding,) = opened.examine(chain("nn.relu", "exp")).findings
    assert finding.identity == "process/crash/partition/SIGSEGV"
    assert len(living.pids()) == before


@pytest.mark.once
def test_servers_started_on_import_live_as_long_as_the_worker(
    tmp_path: Path, ir: str, living: Living
) -> None:
    e = examiner(tmp_path, f"{SERVING}:target", ir)
    e.open()
    assert {"sleep 1001", "sleep 1002"} <= set(living.commands())
    assert e.examine(chain("nn.relu", "exp")).outcome == "pass"
    assert {"sleep 1001", "sleep 1002"} <= set(living.commands())
    e.close()
    assert living.are_gone()


@pytest.mark.once
def test_the_next_session_removes_what_a_killed_host_left(
    pytester: pytest.Pytester, ir: str, living: Living, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = pytester.mkdir("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    command = [
        sys.executable, "-m", "pytest", f"--byoc-target={SERVING}:target", f"--byoc-ir={ir}",
        f"--byoc-python={PYTHON}", "--byoc-level=smoke", "--byoc-operators=nn.relu,add", "-p",
        "no:cacheprovider", "-p", "no:inline_snapshot",
    ]
    process = subprocess.Popen([*command, "-v"], cwd=pytester.path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    next(line for line in process.stdout if "PASSED" in line)
    assert "sleep 1002" in living.commands()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert living.are_gone()
    # The keepers remove the workers' folders once the processes are gone.
    deadline = time.monotonic() + 60
    while any(temporary.glob("*worker*")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(temporary.glob("*worker*")) and any(temporary.iterdir())
    result = pytester.run(*command, "-k", "test_operator and nn.relu and float32", timeout=300)
    assert result.ret == 0
    assert not list(temporary.iterdir())


def test_sweeping_removes_only_folders_whose_owner_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    alive = scratch.Scratch()
    for name in ("pytest-byoc-foreign", "others"):
        (tmp_path / name).mkdir()
    code = "import os; from pytest_byoc.storage.scratch import Scratch; Scratch('worker'); "
    code += "os.kill(os.getpid(), 9)"
    env = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=env).returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 4
    scratch.sweep()
    assert {p.name for p in tmp_path.iterdir()} == {alive.path.name, "pytest-byoc-foreign", "others"}
    alive.remove()
