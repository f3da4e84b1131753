"""What the runs of all roles have: whose turn it is, what is told of it and of what fails."""

from __future__ import annotations

from collections.abc import Iterator
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
    """A check can't be made on a graph, for the reason that the message gives; nobody's fault."""


class Run:
    def __init__(self, ir: IR, job: Mapping[str, Any], reporter: Reporter) -> None:
        self.ir = ir
        #: Sets of inputs, each {name: array}.
        self.inputs: list[Arrays] = job["inputs"]
        self._reporter = reporter
        self._check = ""
        self._executor: str | None = None
        self._reported: list[BaseException] = []
        self._checks: list[str] = job.get("checks", [])
        #: What the process was like before anything of the graph was done, where a check asks for it.
        asked = "surroundings" in self._checks
        self.surroundings: dict[str, Any] = surroundings.state() if asked else {}
        #: What is called before the first run of what was loaded; None: nothing.
        self._preparation: Preparation | None = None

    def begin(self, check: str) -> None:
        """Names the check whose turn it is."""
        self._check = check
        self._executor = None
        self._reporter.send({"turn": check})

    def not_checked(self, reason: str) -> None:
        """Says why the check whose turn it is can't be made: it counts as not checked, not as passed."""
        self._reporter.send({"not_checked": {"check": self._check, "reason": reason}})

    def stage(self, name: str) -> None:
        """Says which stage begins; its time limit starts now."""
        self._reporter.stage(name)

    def load_from(self, path: str, executor: str) -> Executable:
        """What was exported to a path, ready to run."""
        return self.ready(self.ir.load(path, executor))

    def ready(self, executable: Executable) -> Executable:
        """What was loaded, after the call that the target declares to be made then."""
        if self._preparation is not None:
            self._preparation.apply(executable)
        return executable

    def record(self, key: str, value: Any) -> None:
        """Sends a fact to the check's host half, at once: a later crash can't lose it."""
        self._reporter.send({"fact": key, "executor": self._executor, "value": value})

    def hand(self, value: Any) -> None:
        """Leaves something, a path say, for the half of the check that the loader makes."""
        self.record("handed", {"check": self._check, "value": value})

    def failed(self, error: BaseException) -> None:
        """Reports an exception; the same one only once."""
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
        """Inside, facts and failures belong to `executor`; a failure there leaves the others alone."""
        self._executor = executor
        try:
            yield
        except Exception as e:
            self.failed(e)
        finally:
            self._executor = None
