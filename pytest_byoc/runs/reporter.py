"""How a job speaks to the host."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..core.protocol import encode


class Reporter:
    """What a job uses to speak to the host."""

    def __init__(self, fd: int, started: Callable[[], list[int]]) -> None:
        """started: lists the processes that the job has started and not waited for."""
        self._fd = fd
        self._started = started
        self._seen: set[int] = set()
        self.stage_name = "start"
        #: Whether the child is to end as any Python process does, and not at once.
        self.leaves_normally = False

    def send(self, message: dict[str, Any]) -> None:
        data = memoryview(encode(message))
        while data:
            data = data[os.write(self._fd, data) :]

    def stage(self, name: str) -> None:
        """Says which stage begins; its time limit starts now."""
        self.note_started()
        self.stage_name = name
        # CPU seconds so far, those of compilers that were called and have ended included.
        self.send({"stage": name, "cpu": sum(os.times()[:4])})

    def note_started(self) -> bool:
        """Tells the worker of processes that the stage has started; whether there are any of the job's."""
        found = self._started()
        new = [pid for pid in found if pid not in self._seen]
        if new:
            self._seen.update(new)
            self.send({"started": [[pid, self.stage_name] for pid in new]})
        return bool(found)
