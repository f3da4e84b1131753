"""Tracks the current activity of a session, its progress and its duration.

An activity is work before graphs can be examined: starting workers, partitioning graphs to find out
what the target offloads, importing ONNX's tests.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Activity:
    """The current activity, if there is one: the work in a `with` block of `during`.

    on_tick: is called by `tick`, only in the main thread, at least once a second while the host
    waits for a worker. seconds: the duration of all activities that have ended. uncharged: the
    duration of those that are not charged to the time budget.
    """

    def __init__(self, on_tick: Callable[[], None] = lambda: None) -> None:
        self._on_tick = on_tick
        self._begun: float | None = None
        self._what = ""
        self._done = self._of = 0
        self.seconds = self.uncharged = 0.0

    @contextmanager
    def during(self, what: str, of: int = 0, charged: bool = True) -> Iterator[None]:
        """Marks an activity with `of` steps (0: their number is unknown).

        An activity within another one is a part of that one; steps are added if both have the same
        name. charged: whether its duration is charged to the time budget.
        """
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
        """Adds `number` steps that are done. of: the number of all steps, if only known now."""
        if what == self._what:
            self._done, self._of = self._done + number, of or self._of
        self.tick()

    def tick(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._on_tick()

    def in_words(self, least: float = 0.0) -> str:
        """Returns the activity with its steps and seconds, in words.

        It is "" where there is none, or where it has lasted less than `least` seconds.
        """
        if self._begun is None or time.monotonic() - self._begun < least:
            return ""
        steps = f" of {self._of}" if self._of else ""
        done = f": {self._done}{steps}" if self._done or self._of else ""
        return f"{self._what}{done}, {time.monotonic() - self._begun:.0f} s"
