"""Tests of the role that holds a runner, without a session."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_byoc.core.runner import RunnerCrashed, RunnerHung
from pytest_byoc.worker.runner_role import RunnerRole


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
