"""Tests of runners: a command that reads and writes files, an object of the vendor's, TVM's RPC."""

from __future__ import annotations

import os
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.faults import Fault, Patch, apply
from pytest_byoc.checks import CHECKS
from pytest_byoc.checks.selection import NOT_BY_RUNNER
from pytest_byoc.core.errors import Failure
from pytest_byoc.core.runner import RunnerCrashed, RunnerHung
from pytest_byoc.runners import rpc
from pytest_byoc.runners.command import CommandRunner
from pytest_byoc.worker.runner_role import RunnerRole

from .conftest import FIXTURES, PYTHON
from .pages import blocks
from .test_device import EXAMPLE, device_of, report, session

SIMULATOR = f"{shlex.quote(PYTHON)} {shlex.quote(str(FIXTURES / 'simulator.py'))}"
COMMAND = {"command": f"{SIMULATOR} {{artifact}} {{executor}} {{inputs}} {{outputs}}"}
ONE_CASE = ("-k", "test_operator and nn.relu and shape_2x3x4x5")


def with_runner(pytester: pytest.Pytester, ir: str, runner: Any, *arguments: str, **more: Any) -> Any:
    return session(pytester, ir, more.pop("partition", EXAMPLE), *arguments, runner=runner, **more)


@pytest.fixture(autouse=True)
def _named_ir(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "ir" in request.fixturenames:
        monkeypatch.setenv("BYOC_TEST_IR", request.getfixturevalue("ir"))
        monkeypatch.setenv("PYTHONPATH", str(FIXTURES.parent))


def test_a_simulator_runs_artifacts(pytester: pytest.Pytester, ir: str) -> None:
    result = with_runner(
        pytester, ir, COMMAND, "--byoc-time", "-k", f"({ONE_CASE[1]}) or test_speed[nn.relu]"
    )
    assert result.ret == 0
    found = report(pytester)
    (speed,) = found["speed"]
    # One float32 in and out for each cycle.
    assert speed["target_us"] == speed["llvm_us"] == pytest.approx(speed["boundary_bytes"] / 8, rel=1e-3)
    assert "target_peak_bytes" not in speed
    passed = [cell for cell in found["cells"] if cell["passed"]]
    assert {cell["operator"] for cell in passed} == {"nn.relu"}
    assert found["versions"]["runner"].startswith(PYTHON)
    said = next(text for text in found["not_checked"] if text.endswith("runs artifacts, and nothing more"))
    assert "views" in said and "numerics" not in said


@pytest.mark.once
@pytest.mark.parametrize(
    ("fault", "outcome", "text"),
    [
        ("crash", "crash", "SIGSEGV"),
        ("hang", "hang", "hung"),
        ("lie", "wrong-result", "outside its error bound"),
        ("refuse", "error", "exited with status 1: simulator: illegal instruction"),
        ("mute", "error", "has written no 0.npy"),
    ],
)
def test_a_simulator_that_misbehaves(
    pytester: pytest.Pytester, ir: str, fault: str, outcome: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULATOR", fault)
    result = with_runner(pytester, ir, COMMAND, *ONE_CASE, "--byoc-timeout=3", "-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (failure,) = report(pytester)["failures"]
    assert (failure["outcome"], failure["check"]) == (outcome, "numerics" if fault == "lie" else "process")
    assert text in failure["message"]


@pytest.mark.once
@pytest.mark.parametrize("fault", ["always crash", "always lie", "always refuse"])
def test_what_the_device_does_with_llvms_artifact_too_is_not_held_against_the_target(
    pytester: pytest.Pytester, ir: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULATOR", fault)
    result = with_runner(pytester, ir, COMMAND, *ONE_CASE)
    assert result.ret == pytest.ExitCode.TESTS_FAILED  # Nothing has passed.
    found = report(pytester)
    assert not found["failures"] and found["outcomes"]["reference-wrong"] == 1
    (note,) = found["notes"]["reference-wrong"]
    assert "TVM's own LLVM build" in note


#: A runner of 20 lines, which keeps what it is asked in a file.
MINE = """\
import pytest_byoc
from pytest_byoc.worker.roles import ir_module

class Mine:
    executors = ["vm"]

    def open(self):
        self.ir = ir_module("{ir}")
        self.ir.check_available()
        self.ir.import_runtime()

    def run(self, artifact, executor, inputs, timeout):
        with open("{log}", "a") as log:
            print(executor, len(inputs), timeout, file=log)
        if b"example_c" in artifact.read_bytes():  # Not LLVM's own.
            {fault}
        executable = self.ir.load(str(artifact), executor)
        return [executable.run(arrays)[0] for arrays in inputs]

    def reset(self):
        open("{log}", "a").write("reset\\n")

    def close(self):
        open("{log}", "a").write("close\\n")

    def describe(self):
        return {{"board": "one", "firmware": "1.2"}}
"""


def mine(pytester: pytest.Pytester, ir: str, fault: str = "pass") -> tuple[str, Path]:
    log = pytester.path / "log"
    (pytester.path / "mine.py").write_text(MINE.format(ir=ir, log=log, fault=fault))
    return "mine.py:Mine", log


def test_an_object_of_the_vendor(pytester: pytest.Pytester, ir: str) -> None:
    runner, log = mine(pytester, ir)
    result = with_runner(pytester, ir, runner, *ONE_CASE, "--byoc-time")
    assert result.ret == 0
    assert "speed: the runner has no method seconds" in report(pytester)["not_checked"]
    result.stdout.fnmatch_lines(["target mine, * (*, board one, firmware 1.2)"])
    said = log.read_text().split("\n")
    # All runs of an artifact are made in one call: numerics' one and the two of rerun, or more.
    assert all(line.startswith("vm 3 ") for line in said[:-2]) and said[-2:] == ["close", ""]


@pytest.mark.once
@pytest.mark.parametrize(
    ("fault", "outcome", "check"),
    [
        ("if len(inputs) > 1: raise pytest_byoc.RunnerCrashed('watchdog')", "crash", "process"),
        ("if len(inputs) > 1: raise ValueError('second')", "error", "rerun"),
        ("return [[]]", "error", "rerun"),
    ],
)
def test_a_failing_call_is_made_anew_for_each_check(
    pytester: pytest.Pytester, ir: str, fault: str, outcome: str, check: str
) -> None:
    runner, log = mine(pytester, ir, fault)
    result = with_runner(pytester, ir, runner, *ONE_CASE, "-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (failure,) = report(pytester)["failures"]
    assert (failure["outcome"], failure["check"]) == (outcome, check)
    assert ("reset" in log.read_text()) == (outcome == "crash")


class Sent:
    """A reporter that keeps what is sent."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    def stage(self, name: str) -> None:
        pass


#: A runner whose output is its input, which notes how it is called.
ECHO = """\
import pytest_byoc
CALLS = []

class Echo:
    def run(self, artifact, executor, inputs, timeout):
        CALLS.append(len(inputs))
        if any((arrays["x"] == 7).any() for arrays in inputs):
            raise {error}
        return [[arrays["x"]] for arrays in inputs]

    def seconds(self, artifact, executor, inputs, timeout):
        {measured}

    def reset(self):
        CALLS.append("reset")
"""


def role_of(folder: Path, error: str = "ValueError('seven')", measured: str = "return [2, 3]") -> Any:
    path = folder / "echo.py"
    path.write_text(ECHO.format(error=error, measured=measured))
    role = RunnerRole({"runner": f"{path}:Echo", "ir": "relax"})
    return role, sys.modules[type(role.runner).__module__].CALLS


def tape(*values: float) -> list[dict[str, Any]]:
    """Returns a tape of an artifact that is run with each value, each time for another check."""
    load = {"number": 0, "check": "numerics", "executor": "vm", "load": "a.so", "with": "vm"}
    runs = [
        {"number": i, "check": f"check {i}", "executor": "vm", "run": 0, "inputs": {"x": np.full(2, v)}}
        for i, v in enumerate(values, 1)
    ]
    return [load, *runs]


@pytest.mark.once
def test_all_runs_of_an_artifact_are_one_call(tmp_path: Path) -> None:
    role, calls = role_of(tmp_path)
    sent = Sent()
    role.play(tape(1, 2, 3), 5.0, sent)
    assert calls == [3]
    outputs = {m["value"]["number"]: m["value"]["outputs"][0].tolist() for m in sent.messages}
    assert outputs == {1: [1, 1], 2: [2, 2], 3: [3, 3]}


@pytest.mark.once
def test_a_failing_run_belongs_to_its_check(tmp_path: Path) -> None:
    role, calls = role_of(tmp_path)
    sent = Sent()
    role.play(tape(1, 7, 3), 5.0, sent)
    assert calls == [3, 1, 2]
    (result,) = (m["value"]["number"] for m in sent.messages if "fact" in m)
    (raised,) = (m for m in sent.messages if "raised" in m)
    assert (result, raised["check"], raised["executor"]) == (1, "check 2", "vm")
    assert raised["raised"]["type"] == "ValueError"
    (tmp_path / "crashes").mkdir()
    role, calls = role_of(tmp_path / "crashes", "pytest_byoc.RunnerCrashed('watchdog')")
    sent = Sent()
    with pytest.raises(RunnerCrashed, match="watchdog"):
        role.play(tape(1, 7, 3), 5.0, sent)
    assert calls == [3, "reset", 1, 2, "reset"]
    assert {"begins": "check 2"} in sent.messages


@pytest.mark.once
def test_a_runner_measures(tmp_path: Path) -> None:
    role, calls = role_of(tmp_path)
    assert role.description["measures"]
    sent = Sent()
    job = {"time": {"target": "a.so", "llvm": "b.so"}, "executor": "vm", "inputs": [{}]}
    role.measure(job, 5.0, sent)
    (fact,) = sent.messages
    assert fact["value"] == {"target": [2.0, 3.0], "llvm": [2.0, 3.0]}
    (tmp_path / "hangs").mkdir()
    role, calls = role_of(tmp_path / "hangs", measured="raise pytest_byoc.RunnerHung('slow')")
    with pytest.raises(RunnerHung, match="slow"):
        role.measure(job, 5.0, sent)
    assert calls == ["reset"]


@pytest.mark.once
def test_a_lost_device_is_opened_again(pytester: pytest.Pytester, ir: str) -> None:
    lost = pytester.path / "lost"
    fault = f"""import pathlib
            if not pathlib.Path({str(lost)!r}).exists():
                pathlib.Path({str(lost)!r}).touch()
                raise pytest_byoc.RunnerLost("usb")"""
    runner, log = mine(pytester, ir, fault)
    result = with_runner(pytester, ir, runner, *ONE_CASE)
    assert result.ret == 0 and lost.exists()
    assert log.read_text().count("close") == 2


@pytest.mark.once
def test_a_graph_with_which_the_device_is_lost_twice_is_inconclusive(
    pytester: pytest.Pytester, ir: str
) -> None:
    runner, log = mine(pytester, ir)
    fault = f"if open({str(log)!r}).read().count('vm ') < 3: raise pytest_byoc.RunnerLost('usb')"
    mine(pytester, ir, fault)
    result = with_runner(pytester, ir, runner, *ONE_CASE)
    # The only graph has not passed, so the session has not.
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(skipped=1)
    found = report(pytester)
    assert found["outcomes"]["inconclusive"] == 1 and not found["failures"]
    (note,) = found["notes"]["inconclusive"]
    assert "was lost twice with this graph: usb; then usb" in note


@pytest.mark.once
@pytest.mark.parametrize(
    ("runner", "message"),
    [
        ("mine.py:Nothing", "Nothing"),
        ("mine.py:NUMBER", "expected an object with a method run(artifact, executor, inputs, timeout)"),
        ("rpc://127.0.0.1:1/pi", "no tracker answers at 127.0.0.1:1"),
        ({"command": "simulate {artifact}"}, "the command must contain {inputs}"),
        ({"command": "no-such-sim {artifact} {inputs} {outputs}"}, "there is no program no-such-sim"),
        ({"command": "sh {artifact} {inputs} {outputs} {input}"}, "the command contains {input}; known are"),
        ({"command": "sh '{artifact} {inputs} {outputs}"}, "cannot be read (No closing quotation)"),
    ],
)
def test_runners_that_cannot_be_used(pytester: pytest.Pytester, ir: str, runner: Any, message: str) -> None:
    (pytester.path / "mine.py").write_text("NUMBER = 3\n")
    result = with_runner(pytester, ir, runner)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("url", ["rpc://board", "rpc://board:9190", "rpc://board:x/pi", "rpc://:9190/pi"])
def test_addresses_of_trackers(url: str) -> None:
    with pytest.raises(Failure, match=r"expected rpc://HOST:PORT/KEY"):
        rpc.parse(url)
    assert rpc.parse("rpc://board:9190/rasp4b") == ("board", 9190, "rasp4b")


def test_a_table_of_runner(tmp_path: Path) -> None:
    device = device_of(tmp_path, runner={"command": "sim"})
    assert device.is_foreign and device.in_words == "sim"
    with pytest.raises(ValueError, match="a table of runner has one key"):
        device_of(tmp_path, runner={"cmd": "sim"})
    with pytest.raises(ValueError, match="runner is empty"):
        device_of(tmp_path, runner="")
    with pytest.raises(ValueError, match="exclude each other"):
        device_of(tmp_path, runner="a:b", loader="ssh x python3")


def test_checks_that_a_runner_cannot_make_are_known() -> None:
    assert {"numerics", "roundtrip", "rerun", "offload"}.isdisjoint(NOT_BY_RUNNER)
    assert {check.id for check in CHECKS} >= NOT_BY_RUNNER


def test_bfloat16_goes_through_files(tmp_path: Path) -> None:
    import ml_dtypes

    copy = "import shutil, sys; shutil.copy(sys.argv[2] + '/0.npy', sys.argv[3])"
    runner = CommandRunner(f'{shlex.quote(PYTHON)} -c "{copy}" {{artifact}} {{inputs}} {{outputs}}')
    x = np.array([[1.5, -2.0]], ml_dtypes.bfloat16)
    ((found,),) = runner.run(tmp_path / "a.so", "vm", [{"x": x}], 20.0)
    assert found.dtype == x.dtype and (found == x).all()


# --- TVM's RPC ---------------------------------------------------------------------------------


class Rpc:
    """A tracker on this machine, with servers of the key "pi". Their processes end with `stop`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        self._over = False
        self.port = self._bound("tvm.exec.rpc_tracker")
        self.server()

    @property
    def url(self) -> str:
        return f"rpc://127.0.0.1:{self.port}/pi"

    def server(self) -> None:
        self._bound("tvm.exec.rpc_server", f"--tracker=127.0.0.1:{self.port}", "--key=pi")

    def supervise(self) -> None:
        """Starts another server where the last one has left the tracker, as Relax's do when they crash,
        until `stop`."""
        watch = (
            "import time\nfrom tvm import rpc\n"
            f"tracker = rpc.connect_tracker('127.0.0.1', {self.port})\n"
            "while True:\n"
            "    print(len(tracker.summary()['server_info']), flush=True)\n"
            "    time.sleep(1)\n"
        )
        watching = subprocess.Popen(
            [PYTHON, "-c", watch], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._started.append(watching)
        assert watching.stdout is not None
        for line in watching.stdout:
            if line.strip() == b"0" and not self._over:
                self.server()

    def _bound(self, module: str, *arguments: str) -> int:
        """Starts a program of TVM, and returns the port that it is bound to."""
        log = self._folder / f"{len(self._started)}.log"
        port = random.randrange(20000, 40000)
        command = [PYTHON, "-m", module, "--host=127.0.0.1", f"--port={port}", f"--port-end={port + 99}"]
        with log.open("wb") as printed:
            process = subprocess.Popen(
                [*command, *arguments], stdout=printed, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._started.append(process)
        for _ in range(300):
            if found := re.search(r"bind to (?:127\.0\.0\.1|0\.0\.0\.0):(\d+)", log.read_text()):
                return int(found[1])
            if self._over:
                return port
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        raise AssertionError(log.read_text())

    def stop(self) -> None:
        self._over = True
        for process in self._started[::-1]:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def rpc_pi(tmp_path: Path, ir: str) -> Iterator[Rpc]:
    pytest.importorskip("tornado")
    started = Rpc(tmp_path)
    supervisor = threading.Thread(target=started.supervise)
    supervisor.start()
    yield started
    started.stop()
    supervisor.join()
    started.stop()  # It may have started one more server.


def test_rpc(pytester: pytest.Pytester, ir: str, rpc_pi: Rpc) -> None:
    cases = "nn.relu and (test_operator and float32 or test_speed)"
    result = with_runner(pytester, ir, rpc_pi.url, "-k", cases, "--byoc-time")
    assert result.ret == 0
    found = report(pytester)
    (speed,) = found["speed"]
    assert speed["case"] == "speed[nn.relu]" and 0 < speed["target_us"] < 1e6
    assert found["versions"]["runner"] == rpc_pi.url
    assert sum(cell["passed"] for cell in found["cells"]) > 5
    excluded = "executor vm: the runner cannot run it" in found["not_checked"]
    assert excluded == (ir == "relay")


#: What relu of a faulty target is in C: an artifact that is wrong, crashes, or hangs.
RELU = {"wrong-result": "{x}", "crash": "*(volatile float*)8", "hang": "({{ while (1) {{}} 0; }})"}


@pytest.mark.parametrize(
    "outcome", ["wrong-result", *(pytest.param(o, marks=pytest.mark.once) for o in ("crash", "hang"))]
)
def test_faults_are_found_by_rpc(pytester: pytest.Pytester, ir: str, rpc_pi: Rpc, outcome: str) -> None:
    patch = Patch("kernels.py", '{x} > {zero} ? {x} : {zero}"', f'{RELU[outcome]}"')
    target = apply(Fault("relu", 47, "", ("nn.relu",), "process", (patch,)), pytester.path)
    partition = f"{target / '__init__.py'}:target"
    result = with_runner(
        pytester, ir, rpc_pi.url, "-x", *ONE_CASE, "--byoc-timeout=3", partition=partition
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (failure,) = report(pytester)["failures"]
    assert failure["outcome"] == outcome


@pytest.mark.once
def test_a_key_that_no_server_has(pytester: pytest.Pytester, ir: str, rpc_pi: Rpc) -> None:
    result = with_runner(pytester, ir, rpc_pi.url.replace("/pi", "/raspberry"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "has no server with the key 'raspberry'; it has: pi" in result.stdout.str() + result.stderr.str()


@pytest.mark.once
def test_the_simulator_of_the_page(pytester: pytest.Pytester, ir: str) -> None:
    page = FIXTURES.parent / "docs" / "how-to" / "runners.md"
    script = next(block.text for block in blocks(page) if block.language == "python")
    (pytester.path / "mysim.py").write_text(script)
    words = [PYTHON, str(pytester.path / "mysim.py"), "{artifact}", "{inputs}", "{outputs}"]
    assert with_runner(pytester, ir, {"command": shlex.join(words)}, *ONE_CASE).ret == 0
