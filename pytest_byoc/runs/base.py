"""The base class of the runs of all roles: the current check, its facts, and failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Mapping

import numpy as np

from ..core.errors import describe_exception
from ..ir.interface import IR, Executable
from . import surroundings
from .preparing import Preparation
from .reporter import Reporter

Arrays = Mapping[str, np.ndarray]


class NotCheckable(Exception):
    """Raised where a check can't be made on a graph, which is no failure; the message says why."""


class Run:
    """The run of one job's graph in a worker: what it sends to the host, and under which check."""

    def __init__(self, ir: IR, job: Mapping[str, Any], reporter: Reporter) -> None:
        self.ir = ir
        #: The sets of inputs, each {name: array}.
        self.inputs: list[Arrays] = job["inputs"]
        self._reporter = reporter
        self._check = ""
        self._executor: str | None = None
        self._reported: list[BaseException] = []
        self._checks: list[str] = job.get("checks", [])
        #: The state of the process before the run, where the check "surroundings" is made.
        needed = "surroundings" in self._checks
        self.surroundings: dict[str, Any] = surroundings.state() if needed else {}
        #: The call to make on a loaded artifact before its first run; None: no call.
        self._preparation: Preparation | None = None

    @property
    def check(self) -> str:
        """Returns the id of the current check."""
        return self._check

    def begin(self, check: str) -> None:
        """Makes `check` the current one: facts and failures from now on belong to it."""
        self._check = check
        self._executor = None
        self._reporter.send({"begins": check})

    def make(self, check: str, half: Callable[[Any], None]) -> None:
        """Calls a check's half with this run. An exception is reported, not propagated."""
        self.begin(check)
        try:
            half(self)
        except Exception as e:
            self.failed(e)

    def not_checked(self, reason: str) -> None:
        """Reports why the current check can't be made; it counts as not checked, not as passed."""
        self._reporter.send({"not_checked": {"check": self._check, "reason": reason}})

    def stage(self, name: str) -> None:
        """Reports the stage that begins, and restarts the time limit."""
        self._reporter.stage(name)

    def load_from(self, path: str, executor: str) -> Executable:
        """Loads an exported artifact and prepares it for its first run."""
        return self.ready(self.ir.load(path, executor))

    def ready(self, executable: Executable) -> Executable:
        """Makes the call that the target declares for loaded artifacts; returns the artifact."""
        if self._preparation is not None:
            self._preparation.apply(executable)
        return executable

    def record(self, key: str, value: Any) -> None:
        """Sends a fact to the check's host half at once, so that a later crash can't lose it."""
        self._reporter.send({"fact": key, "executor": self._executor, "value": value})

    def pass_on(self, value: Any) -> None:
        """Leaves a value, for example a path, for the check's half in the loader."""
        self.record("passed_on", {"check": self._check, "value": value})

    def failed(self, error: BaseException) -> None:
        """Reports an exception, once even if it is raised several times."""
        if any(error is e for e in self._reported):
            return
        self._reported.append(error)
        if isinstance(error, NotCheckable):
            self.not_checked(str(error))
            return
        self._reporter.send(
            {
                "raised": describe_exception(error),
                "stage": self._reporter.stage_name,
                "check": self._check,
                "executor": self._executor,
            }
        )

    @contextmanager
    def using(self, executor: str) -> Iterator[None]:
        """Assigns facts and failures to `executor`. An exception is reported, not propagated."""
        self._executor = executor
        try:
            yield
        except Exception as e:
            self.failed(e)
        finally:
            self._executor = None
