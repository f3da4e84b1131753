"""Tests of runners: a command that reads and writes files, an object of the vendor's, TVM's RPC."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_byoc.checks import CHECKS
from pytest_byoc.checks.selection import NOT_BY_RUNNER
from pytest_byoc.runners.command import CommandRunner

from .conftest import FIXTURES, PYTHON
from .far_device import ONE_CASE, SMALL_CASE, device_of, report, with_runner
from .pages import blocks

SIMULATOR = f"{shlex.quote(PYTHON)} {shlex.quote(str(FIXTURES / 'simulator.py'))}"
COMMAND = {"command": f"{SIMULATOR} {{artifact}} {{executor}} {{inputs}} {{outputs}}"}


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


def short(fault: str) -> tuple[str, ...]:
    """Returns an option for a fault whose time limit is waited for. The simulator has to import TVM in it."""
    return ("--byoc-timeout=10",) if "hang" in fault else ()


@pytest.mark.once
@pytest.mark.parametrize(
    ("fault", "outcome", "text"),
    [
        ("crash", "crash", "SIGSEGV"),
        ("hang", "hang", "as the runner says: the command had not ended after 10 s"),
        ("lie", "wrong-result", "outside its error bound"),
        ("refuse", "error", "exited with status 1: simulator: illegal instruction"),
        ("mute", "error", "has written no 0.npy"),
    ],
)
def test_a_simulator_that_misbehaves(
    pytester: pytest.Pytester, ir: str, fault: str, outcome: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULATOR", fault)
    result = with_runner(pytester, ir, COMMAND, *SMALL_CASE, *short(fault), "-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (failure,) = report(pytester)["failures"]
    assert (failure["outcome"], failure["check"]) == (outcome, "numerics" if fault == "lie" else "process")
    assert text in failure["message"] and "power on" not in failure["message"]
    printed = failure["details"].get("printed", [])
    assert fault == "lie" or printed[0] == "simulator: power on"
    assert fault != "hang" or printed[1] == "simulator: waiting for DMA"


@pytest.mark.once
@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("crash", "the process died (died of SIGSEGV) (executor "),
        ("hang", "the process hung (executor "),
        ("lie", "outside the bound in output 0"),
        ("refuse", "the command exited with status 1: simulator: illegal instruction"),
        ("mute", "has written no 0.npy"),
    ],
)
def test_a_runner_with_which_nothing_runs_ends_the_session_at_once(
    pytester: pytest.Pytester, ir: str, fault: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULATOR", f"always {fault}")
    result = with_runner(pytester, ir, COMMAND, *short(fault))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = result.stdout.str() + result.stderr.str()
    assert text in said and "nothing of the target can be judged with it" in said
    assert ("waiting for DMA" in said) == (fault == "hang")


@pytest.mark.once
def test_a_runner_that_writes_no_number_of_seconds(
    pytester: pytest.Pytester, ir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMULATOR", "uncertain")
    cases = f"({ONE_CASE[1]}) or test_speed[nn.relu]"
    result = with_runner(pytester, ir, COMMAND, "--byoc-time", "-k", cases)
    assert result.ret == 0
    found = report(pytester)
    assert not found["speed"]
    assert any("seconds.json must hold a positive number" in text for text in found["not_checked"])


@pytest.mark.once
@pytest.mark.parametrize("fault", ["large crash", "large lie", "large refuse"])
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
    # LLVM's artifact is tried first. All runs of an artifact are made in one call: numerics' one and the
    # two of rerun, or more.
    assert said[0].startswith("vm ") and said[-2:] == ["close", ""]
    assert said[1:-2] and all(line.startswith("vm 3 ") for line in said[1:-2])


@pytest.mark.once
def test_a_call_that_does_not_keep_to_its_limit_is_ended(pytester: pytest.Pytester, ir: str) -> None:
    runner, _ = mine(pytester, ir, "print('waiting for the board'); __import__('time').sleep(600)")
    result = with_runner(pytester, ir, runner, *SMALL_CASE, "--byoc-timeout=6", "-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (failure,) = report(pytester)["failures"]
    assert failure["outcome"] == "hang" and "was killed: the limit of a stage is" in failure["message"]
    assert "waiting for the board" in failure["details"]["printed"]


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
    fault = f"if open({str(log)!r}).read().count('vm ') < 4: raise pytest_byoc.RunnerLost('usb')"
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
        ("mysim", "names no runner: expected module:attribute"),
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


def test_a_table_of_runner(tmp_path: Path) -> None:
    device = device_of(tmp_path, runner={"command": "sim"})
    assert device.is_foreign and device.in_words == "sim"
    with pytest.raises(ValueError, match=r"a table of runner has one key, command, .* found cmd"):
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


@pytest.mark.once
def test_the_simulator_of_the_page(pytester: pytest.Pytester, ir: str) -> None:
    page = FIXTURES.parent / "docs" / "how-to" / "runners.md"
    script = next(block.text for block in blocks(page) if block.language == "python")
    (pytester.path / "mysim.py").write_text(script)
    words = [PYTHON, str(pytester.path / "mysim.py"), "{artifact}", "{inputs}", "{outputs}"]
    assert with_runner(pytester, ir, {"command": shlex.join(words)}, *ONE_CASE).ret == 0
