"""What a session does before it can examine graphs: it starts workers, partitions graphs, imports ONNX's tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Activity:
    """What is being done, told by `during`; nothing most of the time, since graphs are examined then.

    on_tick: called by `tick` in the main thread alone, about once a second wherever the host waits for a worker.
    seconds: time in activities that have ended. uncharged: the part of it that no time budget is charged with."""

    def __init__(self, on_tick: Callable[[], None] = lambda: None) -> None:
        self._on_tick = on_tick
        self._begun: float | None = None
        self._what = ""
        self._done = self._of = 0
        self.seconds = self.uncharged = 0.0

    @contextmanager
    def during(self, what: str, of: int = 0, charged: bool = True) -> Iterator[None]:
        """An activity of so many steps (0: it is not known how many). Within another one it is a part of that."""
        if self._begun is not None:
            self._of += of if what == self._what else 0
            yield
            return
        self._begun, self._what, self._done, self._of = time.monotonic(), what, 0, of
        try:
            yield
        finally:
            spent = time.monotonic() - self._begun
            self.seconds += spent
            self.uncharged += 0.0 if charged else spent
            self._begun = None

    def step(self, what: str, number: int, of: int = 0) -> None:
        """So many more steps of an activity are done. of: how many there are, where that is known only now."""
        if what == self._what:
            self._done, self._of = self._done + number, of or self._of
        self.tick()

    def tick(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._on_tick()

    def in_words(self) -> str:
        """What is being done and how far it is; "" where it is no such activity."""
        if self._begun is None:
            return ""
        steps = f" of {self._of}" if self._of else ""
        done = f": {self._done}{steps}" if self._done or self._of else ""
        return f"{self._what}{done}, {time.monotonic() - self._begun:.0f} s"
