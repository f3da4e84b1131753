"""A session starts workers, partitions graphs and imports ONNX's tests before it can examine graphs: which
of these activities goes on, how far it is, and how long it took."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Activity:
    """What goes on at the moment, between the two ends of `during`.

    on_tick: is called by `tick`, in the main thread alone, at least once a second while the host waits for
    a worker. seconds: duration of all activities that have ended. uncharged: duration of those that are not
    charged to the time budget."""

    def __init__(self, on_tick: Callable[[], None] = lambda: None) -> None:
        self._on_tick = on_tick
        self._begun: float | None = None
        self._what = ""
        self._done = self._of = 0
        self.seconds = self.uncharged = 0.0

    @contextmanager
    def during(self, what: str, of: int = 0, charged: bool = True) -> Iterator[None]:
        """An activity of so many steps (0: their number is unknown). Within another activity it is a part of
        that one."""
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
        """Adds steps that are done. of: the number of all steps, where it is known only now."""
        if what == self._what:
            self._done, self._of = self._done + number, of or self._of
        self.tick()

    def tick(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._on_tick()

    def in_words(self, least: float = 0.0) -> str:
        """The activity with its steps and seconds; "" where there is none, or it has taken less time."""
        if self._begun is None or time.monotonic() - self._begun < least:
            return ""
        steps = f" of {self._of}" if self._of else ""
        done = f": {self._done}{steps}" if self._done or self._of else ""
        return f"{self._what}{done}, {time.monotonic() - self._begun:.0f} s"
