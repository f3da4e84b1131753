"""Sends the messages of a job to its worker, which passes them on to the host."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..core.protocol import encode


class Reporter:
    """The sender of a job's messages. fd: the pipe that they are written to."""

    def __init__(self, fd: int, started: Callable[[], list[int]]) -> None:
        """Creates a reporter. started: lists the job's processes that it has not waited for."""
        self._fd = fd
        self._started = started
        self._seen: set[int] = set()
        self.stage_name = "start"
        #: Whether the child ends by a normal exit of Python, rather than by `os._exit`.
        self.leaves_normally = False

    def send(self, message: dict[str, Any]) -> None:
        data = memoryview(encode(message))
        while data:
            data = data[os.write(self._fd, data) :]

    def stage(self, name: str) -> None:
        """Reports the stage that begins, and restarts the time limit."""
        self.note_started()
        self.stage_name = name
        # The CPU seconds include those of child processes, such as compilers, that have ended.
        self.send({"stage": name, "cpu": sum(os.times()[:4])})

    def note_started(self) -> bool:
        """Reports processes that the stage has started; returns whether any of the job's run."""
        running = self._started()
        new = [pid for pid in running if pid not in self._seen]
        if new:
            self._seen.update(new)
            self.send({"started": [[pid, self.stage_name] for pid in new]})
        return bool(running)
