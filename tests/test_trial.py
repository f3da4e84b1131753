"""Tests of running a failure's reproduce.py before it is offered."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from pytest_byoc.core.finding import Finding
from pytest_byoc.report import trial
from pytest_byoc.report.trial import Ended, Trial, note, shows

pytestmark = pytest.mark.once
WRONG = Finding("numerics", "wrong-result", "compare", "wrong-value", "it is wrong.")
RAISED = Finding("process", "error", "build", "TypeError", "build raised.", {"exception": {"frames": []}})
DIED = Finding("process", "crash", "run", "SIGSEGV", "it died.")
HUNG = Finding("process", "hang", "build", "hung", "it hung.")
TWICE = Finding("offload", "error", "partition", "symbol-twice", "two are called so.")
LOST = Finding("offload", "error", "partition", "MainLost", "partition raised.", {"exception": {}})
NOTHING = Finding("offload", "error", "partition", "NotAModule", "partition raised.", {"exception": {}})


@pytest.mark.parametrize(
    "finding, status, printed, shown",
    [
        (WRONG, 1, "stage run\nFAILED: output v0 in the first run is 1.0 at [0], expected 2.0.\n", True),
        (WRONG, 0, "passed\n", False),
        (WRONG, 1, "FAILED: the stage import raised ImportError: no module named x\n", False),
        (WRONG, 1, "FAILED: the stage run hung: it took more than 30 seconds.\n", False),
        (WRONG, -11, "stage run\n", False),
        (WRONG, 1, "Traceback (most recent call last):\nNameError: x\n", False),
        (WRONG, None, "stage run\n", False),
        (RAISED, 1, "FAILED: the stage build, graph executor raised TypeError: not so\n", True),
        (RAISED, 1, "FAILED: the stage import raised ImportError: not so\n", False),
        (RAISED, 0, "passed\n", False),
        (TWICE, 1, "FAILED: two subgraphs of the partitioned module have the same name.\n", True),
        (NOTHING, 1, "FAILED: the partition function returned int, expected a tvm.IRModule.\n", True),
        (LOST, 1, "FAILED: the stage build, graph executor raised KeyError: main\n", True),
        (LOST, 1, "FAILED: output v0 in the first run is float64 (2,), expected float32 (2,).\n", True),
        (LOST, 0, "passed\n", False),
        (DIED, -11, "stage run\n", True),
        (DIED, 1, "FAILED: the fresh process that loads the exported library ended with status -6.\n", True),
        (DIED, 1, "FAILED: the process called exit() in the stage run.\n", True),
        (DIED, 0, "passed\n", False),
        (HUNG, 1, "FAILED: the stage build hung: it took more than 30 seconds.\n", True),
        (HUNG, 1, "Timeout (0:00:32)!\n", True),
        (HUNG, None, "stage build\n", False),
    ],
)
def test_a_script_shows_its_finding(finding: Finding, status: int | None, printed: str, shown: bool) -> None:
    assert shows(Ended(status, printed), finding) is shown
    assert bool(note(Ended(status, printed), finding, "pytest -k it")) is not shown


def test_the_note_on_a_script_that_does_not_show_the_failure() -> None:
    message = note(Ended(0, "stage run\npassed\n"), WRONG, "pytest --byoc-replay=it")
    assert message == (
        "reproduce.py did not show this failure when it was tried: it ended with 'passed' and status 0. "
        "Repeat it with: pytest --byoc-replay=it"
    )
    assert "it died of SIGSEGV" in note(Ended(-11, ""), WRONG, "")
    assert "it died of signal 40" in note(Ended(-40, ""), WRONG, "")
    assert "it did not end in time" in note(Ended(None, ""), WRONG, "")
    other = Ended(1, "FAILED: the stage import raised X\n")
    assert "it said: the stage import raised" in note(other, WRONG, "")


def run_script(folder: Path, text: str) -> Ended:
    script = folder / "reproduce.py"
    script.write_text(text)
    return Trial(sys.executable, 0.1, 1 << 30).run(script)


def test_a_script_leaves_no_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    ended = run_script(
        tmp_path, "import os, sys, tempfile\nopen(tempfile.mkdtemp() + '/left', 'w')\n"
        "print(os.getcwd(), flush=True)\n"
        "print('FAILED: on purpose', file=sys.stderr)\nsys.exit(1)\n",
    )
    assert ended.status == 1 and ended.failed == ["on purpose"]
    assert ended.printed.splitlines()[0] == os.getcwd()
    assert not list(temporary.iterdir())
    assert run_script(tmp_path, "import os\nos.abort()\n").status == -signal.SIGABRT


def test_a_script_that_does_not_end_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "_SLACK", 2.0)
    began = time.monotonic()
    ended = run_script(
        tmp_path, "import subprocess, time\nchild = subprocess.Popen(['sleep', '100'])\n"
        "print(child.pid, flush=True)\ntime.sleep(100)\n",
    )
    assert ended.status is None and time.monotonic() - began < 30
    child = int(ended.printed.split()[0])
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or " Z " in Path(f"/proc/{child}/stat").read_text():
            return
        time.sleep(0.05)
    raise AssertionError("a process was left behind")


def test_a_daemon_of_a_script_is_ended(tmp_path: Path) -> None:
    script, pid = tmp_path / "reproduce.py", tmp_path / "pid"
    script.write_text(
        "import os, time\n"
        "if not os.fork():\n"
        "    os.setsid()\n"
        "    if not os.fork():\n"
        f"        open({str(pid)!r}, 'w').write(str(os.getpid()))\n"
        "        time.sleep(600)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        f"while not os.path.exists({str(pid)!r}) or not open({str(pid)!r}).read(): time.sleep(0.01)\n"
        "print('FAILED: so', flush=True)\nos._exit(1)\n"
    )
    ended = Trial(sys.executable, 5.0, 0).run(script)
    assert (ended.status, ended.failed) == (1, ["so"])
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_script_that_kills_its_parent_does_not_kill_the_session(tmp_path: Path) -> None:
    script = tmp_path / "reproduce.py"
    script.write_text("import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(600)\n")
    assert Trial(sys.executable, 5.0, 0).run(script).status == -signal.SIGKILL
