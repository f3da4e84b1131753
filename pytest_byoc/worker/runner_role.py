"""The role of a worker that has a runner run artifacts, and the server for it, which forks no children.

A runner may hold a connection or a device, which a forked child could not use. What it does to its
process is its own affair: it is the user's, or one of `runners`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Mapping

import numpy as np

from ..core.errors import Failure, describe_exception
from ..core.importing import import_reference
from ..core.protocol import encode
from ..core.runner import RunnerCrashed, RunnerHung, RunnerLost, optional
from ..core.tape import PLAYED
from ..runs.reporter import Reporter

Step = Mapping[str, Any]


class RunnerRole:
    """The role that plays tapes of target workers with a runner.

    config: "runner" (a reference, `rpc://HOST:PORT/KEY`, or {"command": …}), "ir".
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Raises Failure for a runner that can't be used, and RunnerLost where there is no device."""
        self.runner = _runner(config["runner"], config["ir"])
        #: Whether a process is started for each set of inputs, which has a time limit of its own.
        self._has_command = isinstance(config["runner"], Mapping)
        optional(self.runner, "open")
        described = optional(self.runner, "describe") or {}
        self.description = {
            "executors": list(getattr(self.runner, "executors", ())),
            "facts": {str(key): str(value) for key, value in described.items()},
            "measures": callable(getattr(self.runner, "seconds", None)),
        }

    def measure(self, job: Step, timeout: float, reporter: Reporter) -> None:
        """Sends the seconds of runs of the artifacts job["time"] with the job's first inputs.

        Raises RunnerCrashed, RunnerHung and RunnerLost.
        """
        seconds = {}
        for name, path in job["time"].items():
            reporter.stage("time")
            try:
                found = self.runner.seconds(Path(path), job["executor"], job["inputs"][0], timeout)
            except (RunnerCrashed, RunnerHung) as e:
                self._reset(e)
                raise
            seconds[name] = [float(value) for value in found]
        reporter.send({"fact": "seconds", "executor": job["executor"], "value": seconds})

    def play(self, steps: Sequence[Step], timeout: float, reporter: Reporter) -> None:
        """Runs the artifacts of a tape, and sends the outputs of each run.

        All runs of an artifact are made in one call. If that fails, the runs up to each check are made
        anew, which tells the check that fails. Raises RunnerCrashed, RunnerHung and RunnerLost.
        """
        for load, runs in _by_artifact(steps):
            try:
                self._run(load, runs, runs, timeout, reporter)
            except RunnerLost:
                raise
            except Exception as e:
                self._attribute(e, load, runs, timeout, reporter)

    def _attribute(
        self, error: Exception, load: Step, runs: Sequence[Step], timeout: float, reporter: Reporter
    ) -> None:
        """Finds the check that fails, and reports it. error: what the runs in one call have raised."""
        if len({run["check"] for run in runs}) == 1:
            self._failed(error, runs[0], reporter)
            return
        self._reset(error)
        for end, run in enumerate(runs, 1):
            if end < len(runs) and runs[end]["check"] == run["check"]:
                continue
            own = [r for r in runs[:end] if r["check"] == run["check"]]
            try:
                self._run(load, runs[:end], own, timeout, reporter)
            except RunnerLost:
                if not isinstance(error, RunnerCrashed):
                    raise
                # The artifact has taken the device with it.
                self._failed(error, runs[0], reporter)
                return
            except Exception as e:
                self._failed(e, run, reporter)
                return

    def _run(
        self, load: Step, runs: Sequence[Step], wanted: Sequence[Step], timeout: float, reporter: Reporter
    ) -> None:
        """Makes runs of an artifact in one call, and sends the outputs of those that are wanted."""
        path, inputs = Path(load["load"]), [run["inputs"] for run in runs]
        results: list[Any] = []
        for some in ([each] for each in inputs) if self._has_command else [inputs]:
            # The host waits for each call a little longer than `timeout`.
            reporter.stage("run")
            found = self.runner.run(path, load["with"], some, timeout)
            if not isinstance(found, (list, tuple)):
                raise TypeError(
                    "the runner's method run returned %s, expected a list of outputs for each set of inputs"
                    % type(found).__name__
                )
            if len(found) != len(some):
                raise RuntimeError(
                    "the runner returned the outputs of %d runs for %d sets of inputs"
                    % (len(found), len(some))
                )
            results += found
        for run, outputs in zip(runs, results):
            if any(run is w for w in wanted):
                value = {"number": run["number"], "outputs": [np.asarray(output) for output in outputs]}
                reporter.send({"fact": PLAYED, "executor": run["executor"], "value": value})

    def _failed(self, error: Exception, run: Step, reporter: Reporter) -> None:
        """Reports a failure of a run. Raises RunnerCrashed and RunnerHung, which end the job."""
        reporter.send({"begins": run["check"]})
        reporter.stage("run")
        self._reset(error)
        if isinstance(error, (RunnerCrashed, RunnerHung)):
            raise error
        reporter.send({**_raised(error, "run"), "check": run["check"], "executor": run["executor"]})

    def _reset(self, error: Exception) -> None:
        if isinstance(error, (RunnerCrashed, RunnerHung)):
            optional(self.runner, "reset")

    def close(self) -> None:
        optional(self.runner, "close")


def _runner(given: Any, ir: str) -> Any:
    if isinstance(given, Mapping):
        from ..runners.command import CommandRunner

        return CommandRunner(given["command"])
    if given.startswith("rpc://"):
        from ..runners.rpc import RpcRunner

        return RpcRunner(given, ir)
    found = import_reference(given, "runner")
    runner = found() if isinstance(found, type) else found
    if not callable(getattr(runner, "run", None)):
        raise Failure(
            "runner %s: expected an object with a method run(artifact, executor, inputs, timeout), found %s"
            % (given, type(runner).__name__)
        )
    return runner


def _raised(error: Exception, stage: str) -> dict[str, Any]:
    """Returns the entries of a message on an exception, with what the device has printed."""
    printed = getattr(error, "printed", "")
    return {"raised": describe_exception(error), "stage": stage, **({"printed": printed} if printed else {})}


def _by_artifact(steps: Sequence[Step]) -> Iterator[tuple[Step, list[Step]]]:
    """Yields each artifact that is loaded, with its runs in their order."""
    for load in steps:
        if "load" in load:
            runs = [step for step in steps if step.get("run") == load["number"]]
            if runs:
                yield load, runs


class RunnerServer:
    """A server that plays tapes one after the other, in its own process."""

    def __init__(self, control: socket.socket, role: RunnerRole) -> None:
        self._control = control
        self._role = role

    def run(self, job: Mapping[str, Any], timeout: float) -> None:
        """Plays the tape of a job, and sends the `end` message."""
        reporter = Reporter(self._control.fileno(), list)
        began = time.monotonic()
        stage = "time" if "time" in job else "run"
        end: dict[str, Any] = {"stage": stage, "hung": False, "signal": None, "status": 0}
        try:
            if "time" in job:
                self._measure(job, timeout, reporter)
            else:
                self._role.play(job["tape"], timeout, reporter)
        except RunnerHung as e:
            end.update(hung=True, printed=e.printed, told=str(e))
        except RunnerCrashed as e:
            end.update(signal=str(e) or "crashed", printed=e.printed)
        except RunnerLost as e:
            end.update(lost=str(e))
        reporter.send({"done": True})
        rest = {"garbage": False, "cpu": {}, "peak_kib": 0, "limit": timeout}
        seconds = {stage: round(time.monotonic() - began, 6)}
        self._control.sendall(encode({"end": {"printed": "", **end, **rest, "seconds": seconds}}))

    def _measure(self, job: Mapping[str, Any], timeout: float, reporter: Reporter) -> None:
        try:
            self._role.measure(job, timeout, reporter)
        except (RunnerCrashed, RunnerHung, RunnerLost):
            raise
        except Exception as e:
            # A runner that can't measure can still run.
            reporter.send({**_raised(e, "time"), "check": "", "executor": None})
