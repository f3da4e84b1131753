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
#: Seconds in which a runner has to close.
CLOSING = 10.0


class ReturningWorker(Worker):
    """A worker whose job ends with the entry "lost" if its device is lost; it is then made once more."""

    _job: Mapping[str, Any] = {}
    _job_timeout: float | None = None

    @property
    def device(self) -> str:
        """Returns what the device is reached by, for messages."""
        return str(self._config.get("runner", self._python))

    def submit(self, job: Mapping[str, Any], timeout: float | None = None) -> None:
        self._job, self._job_timeout = job, timeout
        super().submit(job, timeout)

    def stop(self) -> None:
        """Ends the worker. A runner has CLOSING seconds to close."""
        if self._socket is not None and self._config["role"] == "runner" and self._process is not None:
            self._socket.close()
            self._socket = None
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(CLOSING)
        super().stop()

    def collect(self) -> JobReport:
        """Returns the report on the job submitted last.

        If the device is lost, the job is given to it once more when it is back. Raises SessionEnded if
        it does not come back, or is lost again with the same job.
        """
        report = super().collect()
        if report.end is None or not report.end.get("lost"):
            return report
        first = report.end["lost"]
        self._wait_until_back(first)
        super().submit(self._job, self._job_timeout)
        report = super().collect()
        if report.end is not None and report.end.get("lost"):
            raise SessionEnded(
                f"the device ({self.device}) was lost twice in the same job: {first}; then "
                f"{report.end['lost']}. That is not held against the target. If the device restarts each "
                "time, the artifact may be the cause: repeat the last graph alone."
            )
        return report

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
