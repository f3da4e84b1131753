"""The host's end of a worker that needs a device, which may be lost and come back."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..core.job_report import JobReport
from ..storage.session_ended import SessionEnded
from .client import Worker, WorkerError

#: Seconds for which a device that was lost is asked again, and the time between two attempts.
RETURNING, BETWEEN = 180.0, 5.0
#: The number of graphs with which the device may be lost twice; with one more the session ends.
MOST = 3
#: Seconds in which a runner has to close.
CLOSING = 10.0
#: Seconds beyond its time limit in which a runner of the user's has to return from a call.
_RETURN = 5.0


class DeviceLost(Exception):
    """Raised when the device was lost twice with the same job. It has come back since."""


class ReturningWorker(Worker):
    """A worker whose job ends with the entry "lost" if its device is lost; it is then made once more."""

    #: The number of jobs with which the device was lost twice.
    _losses = 0
    _job: Mapping[str, Any] = {}
    _job_timeout: float | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        runner = self._config.get("runner", "")
        if isinstance(runner, str) and runner and not runner.startswith("rpc://"):
            # Ours keep to the limit, of which each run of a command has its own.
            self._slack = _RETURN

    @property
    def device(self) -> str:
        """Returns what the device is reached by, for messages."""
        return str(self._config.get("runner", self._python))

    def submit(self, job: Mapping[str, Any], timeout: float | None = None) -> None:
        self._job, self._job_timeout = job, timeout
        super().submit(job, timeout)

    def stop(self) -> None:
        """Ends the worker. A runner that does not hang has CLOSING seconds to close."""
        has_runner = self._config["role"] == "runner" and not self._working
        if has_runner and self._socket is not None and self._process is not None:
            self._socket.close()
            self._socket = None
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSING)
        super().stop()

    def collect(self) -> JobReport:
        """Returns the report on the job submitted last.

        If the device is lost, the job is given to it once more when it is back. Raises DeviceLost if it
        is lost again with the same job, and SessionEnded if it does not come back, or if that has
        happened with more than MOST jobs.
        """
        report = super().collect()
        if report.end is None or not report.end.get("lost"):
            return report
        first = report.end["lost"]
        self._wait_until_back(first)
        super().submit(self._job, self._job_timeout)
        report = super().collect()
        if report.end is None or not report.end.get("lost"):
            return report
        self._losses += 1
        then = report.end["lost"]
        text = f"the device ({self.device}) was lost twice with this graph: {first}; then {then}"
        if self._losses > MOST:
            raise SessionEnded(
                f"{text}. It is the graph number {self._losses} with which that happened. That is not held "
                "against the target. If the device restarts each time, the artifact may be the cause: repeat "
                "the last graph alone."
            )
        self._wait_until_back(then)
        raise DeviceLost(text)

    def _wait_until_back(self, how: str) -> None:
        """Starts the worker again, as often as it takes for RETURNING seconds. Raises SessionEnded."""
        deadline = time.monotonic() + RETURNING
        while True:
            try:
                self._restart()
                return
            except WorkerError as e:
                if time.monotonic() > deadline:
                    raise SessionEnded(
                        f"the device ({self.device}) was lost: {how}; and it could not be reached again in "
                        f"{RETURNING:.0f} s. That is not held against the target.\n{e}"
                    ) from None
            pause = time.monotonic() + BETWEEN
            while time.monotonic() < pause:
                self._waiting()
                time.sleep(0.2)
