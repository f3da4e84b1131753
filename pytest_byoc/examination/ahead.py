"""Does work ahead of the tests that need it, in threads that have workers of their own.

While the host waits for the workers of one graph or judges their reports, the machine's other cores
would be idle. The evidence on a graph depends on nothing but the graph and the effort, and how a graph is
partitioned on nothing but the graph, so both may be found out before, in any order.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, Protocol, TypeVar

#: The most threads: the host's own share of the work is done by one at a time.
MOST = 4
#: The number of requests from which further workers are started, which takes as long as some of these.
ENOUGH = 5
#: The seconds in which a thread has to end.
_ENDING = 15.0


class Lane(Protocol):
    """The workers of one thread."""

    def open(self) -> None:
        """Starts the workers."""

    def hang_up(self) -> None:
        """Makes a task that is at work in another thread end soon."""

    def close(self) -> None:
        """Ends the workers."""


Workers = TypeVar("Workers", bound=Lane)
Its = TypeVar("Its", contravariant=True)
Result = TypeVar("Result", covariant=True)


class Task(Hashable, Protocol[Its, Result]):
    """Work that any lane can do. Tasks that are equal have equal results."""

    def run(self, lane: Its) -> Result: ...


def threads() -> int:
    """Returns the number of threads that this process has cores for, the main one included.

    The processes of pytest-xdist, and sessions that they start, share the cores.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        return 1
    return min(len(os.sched_getaffinity(0)), MOST)


class Ahead(Generic[Workers]):
    """Tasks for threads, whose results the main thread takes in the order of the requests.

    own: the main thread's lane. make: makes the lane of a thread. number: of these threads, which are
    started when there is enough work for them. waiting: is called at least once a second while the main
    thread waits.
    """

    def __init__(
        self, own: Workers, make: Callable[[], Workers], number: int,
        waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self._own = own
        self._make = make
        self._waiting = waiting
        self.number = number
        self._queue: deque[Task[Workers, Any]] = deque()
        self._running: set[Task[Workers, Any]] = set()
        #: Results, each in a tuple; an empty one where a thread has failed.
        self._done: dict[Task[Workers, Any], tuple[Any, ...]] = {}
        self._threads: list[threading.Thread] = []
        self._lanes: list[Workers] = []
        self._requests = 0
        self._changed = threading.Condition()
        self._ended = False

    @property
    def left(self) -> int:
        """Returns the number of requested tasks that no thread has begun."""
        return len(self._queue)

    @property
    def is_on(self) -> bool:
        """Returns whether requests are of use."""
        return self.number > 0 and not self._ended

    def request(self, task: Task[Workers, Any]) -> None:
        """Lets a task be done, whose result `take` will ask for later."""
        with self._changed:
            if not self.is_on or task in self._queue or task in self._running or task in self._done:
                return
            self._queue.append(task)
            self._requests += 1
            self._changed.notify()
        if len(self._threads) < self.number and self._requests >= ENOUGH:
            thread = threading.Thread(target=self._run, name="examining ahead", daemon=True)
            self._threads.append(thread)
            thread.start()

    def take(self, task: Task[Workers, Result]) -> Result:
        """Returns the result of a task, which is done now if no thread has done it.

        While a thread is at work on it, the main thread does the task that was requested next.
        """
        while True:
            with self._changed:
                if task not in self._running:
                    with suppress(ValueError):
                        self._queue.remove(task)
                    done = self._done.pop(task, ())
                    break
                following = self._queue.popleft() if self._queue else None
                if following is None:
                    self._changed.wait(1.0)
            self._waiting()
            if following is not None:
                result = (following.run(self._own),)
                with self._changed:
                    self._done[following] = result
        return done[0] if done else task.run(self._own)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Lets no thread work, since times are measured."""
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

    def close(self) -> None:
        """Ends the threads and their workers."""
        with self._changed:
            self._ended = True
            self._queue.clear()
            self._changed.notify_all()
            lanes = list(self._lanes)
        for lane in lanes:
            lane.hang_up()
        for thread in self._threads:
            thread.join(_ENDING)

    # --- in a thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        lane = self._make()
        with self._changed:
            self._lanes.append(lane)
        # Whatever is raised here would be raised in the main thread too, where it is reported.
        with suppress(BaseException):
            lane.open()
            self._serve(lane)
        lane.close()
        with self._changed:
            # If further workers can't be started, the main thread does it all.
            self.number -= 1
            self._changed.notify_all()

    def _serve(self, lane: Workers) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._ended:
                    self._changed.wait()
                if self._ended:
                    return
                task = self._queue.popleft()
                self._running.add(task)
            result: tuple[Any, ...] = ()
            try:
                result = (task.run(lane),)
            finally:
                with self._changed:
                    self._running.discard(task)
                    self._done[task] = result
                    self._changed.notify_all()
