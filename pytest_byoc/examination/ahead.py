"""Examines graphs ahead of the tests that need them, in threads with workers of their own.

While the host waits for the workers of one graph or judges their reports, the machine's other cores
would be idle. Evidence on a graph depends on nothing but the graph and the effort, so it may be gathered
before, in any order.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from ..config.effort import Effort
from ..core.graph import Graph
from ..evidence.evidence import Evidence
from ..evidence.judging import Judgement

#: The most threads beside the main one: the host's own share of the work is done by one at a time.
MOST = 3
#: The seconds in which a thread has to end.
_ENDING = 15.0

#: A graph, and the effort with which it is examined.
Examination = tuple[Graph, Effort]
#: The evidence on a graph, and the findings in it.
Gathered = tuple[Evidence, Judgement]
#: Gathers the evidence on a graph.
Gather = Callable[[Examination], Gathered]


def threads() -> int:
    """Returns the number of threads beside the main one that this machine has cores for."""
    return min(len(os.sched_getaffinity(0)) - 1, MOST)


class Helper(Protocol):
    """What a thread needs to do work."""

    def open(self) -> None:
        """Starts processes."""

    def work(self, key: Examination) -> Gathered:
        """Does what a key names."""

    def hang_up(self) -> None:
        """Makes `work` end soon; called in another thread."""

    def close(self) -> None:
        """Ends the processes."""


class Ahead:
    """Work for threads that is taken back by the main thread in the order of the requests.

    make: makes a thread's helper. number: the number of threads, which are started when there is work for
    them.
    """

    def __init__(self, make: Callable[[], Helper], number: int) -> None:
        self._make = make
        self.number = number
        self._queue: deque[Examination] = deque()
        self._running: set[Examination] = set()
        self._done: dict[Examination, Gathered | None] = {}
        self._threads: list[threading.Thread] = []
        self._helpers: list[Helper] = []
        self._changed = threading.Condition()
        self._ended = False

    @property
    def waiting(self) -> int:
        """Returns the number of requests that no thread has begun."""
        return len(self._queue)

    @property
    def is_on(self) -> bool:
        """Returns whether requests are of use."""
        return self.number > 0 and not self._ended

    def request(self, key: Examination) -> None:
        """Asks for a result that `take` will ask for later."""
        with self._changed:
            if not self.is_on or key in self._queue or key in self._running or key in self._done:
                return
            self._queue.append(key)
            self._changed.notify()
        if len(self._threads) < min(self.number, len(self._queue)):
            thread = threading.Thread(target=self._run, name="examining ahead", daemon=True)
            self._threads.append(thread)
            thread.start()

    def take(self, key: Examination, gather: Gather, waiting: Callable[[], None]) -> Gathered:
        """Returns a result: one that is there, or else that of `gather`.

        While a thread is at work on it, the main thread does what is requested next. waiting: is called at
        least once a second.
        """
        while True:
            with self._changed:
                if key in self._done:
                    result = self._done.pop(key)
                    break
                if key not in self._running:
                    with suppress(ValueError):
                        self._queue.remove(key)
                    result = None
                    break
                following = self._queue.popleft() if self._queue else None
                if following is None:
                    self._changed.wait(1.0)
            waiting()
            if following is not None:
                found = gather(following)
                with self._changed:
                    self._done[following] = found
        return gather(key) if result is None else result

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Lets no thread work, for measurements of time."""
        with self._changed:
            queue, self._queue = self._queue, deque()
            while self._running:
                self._changed.wait(1.0)
        try:
            yield
        finally:
            with self._changed:
                self._queue.extendleft(reversed(queue))
                self._changed.notify_all()

    def forget(self) -> None:
        """Drops results and requests that nobody has asked for."""
        with self._changed:
            self._queue.clear()
            self._done.clear()

    def close(self) -> None:
        """Ends the threads and their processes."""
        with self._changed:
            self._ended = True
            self._queue.clear()
            self._changed.notify_all()
            helpers = list(self._helpers)
        for helper in helpers:
            helper.hang_up()
        for thread in self._threads:
            thread.join(_ENDING)

    # --- in a thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        helper = self._make()
        with self._changed:
            self._helpers.append(helper)
        # Whatever is raised here would be raised in the main thread too, where it is reported.
        with suppress(BaseException):
            helper.open()
            self._serve(helper)
        helper.close()
        with self._changed:
            # If another set of workers can't be started, the main thread does it all.
            self.number -= 1
            self._changed.notify_all()

    def _serve(self, helper: Helper) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._ended:
                    self._changed.wait()
                if self._ended:
                    return
                key = self._queue.popleft()
                self._running.add(key)
            result: Gathered | None = None
            try:
                result = helper.work(key)
            finally:
                with self._changed:
                    self._running.discard(key)
                    self._done[key] = result
                    self._changed.notify_all()
