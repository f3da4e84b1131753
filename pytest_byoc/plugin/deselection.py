"""Tests for which the target offloads nothing are deselected while the session runs.

Partitioning tells which they are, a part of the suite at a time: a session that partitioned all graphs
before its first test would show its first failure later. No plugin is given the reports of such a test:
it has no letter, and is in no JUnit XML and no IDE. What it found out is in the record all the same.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from _pytest.outcomes import Skipped
from _pytest.runner import runtestprotocol

from ..examination.outcome import NOT_OFFLOADED, PASS, Verdict
from .collection import is_ours

#: Attribute of the report of a test that is to be deselected.
_DESELECTED = "byoc_deselected"
#: Attribute of a report that says how many tests were deselected before it in a process of pytest-xdist.
_COUNT = "byoc_deselected_before"


class NotOffloaded(Skipped):
    """Raised by a test of the suite for which the target offloads nothing. Where another plugin runs the
    tests it is a skip."""


def deselect(reason: str) -> NoReturn:
    """Ends the running test of the suite: the target offloads nothing that it could examine."""
    raise NotOffloaded(reason)


def expect_pass(verdict: Verdict) -> None:
    """Ends the running test of the suite unless its graph has passed: the test is deselected where nothing
    was offloaded, and skipped where the graph could not be judged."""
    if verdict.outcome == NOT_OFFLOADED:
        deselect(verdict.reason)
    if verdict.outcome != PASS:
        pytest.skip(verdict.reason)


def mark(call: pytest.CallInfo[None], report: pytest.TestReport) -> bool:
    """Marks the report of a test that ended by `deselect`; True for such a test."""
    found = call.excinfo is not None and isinstance(call.excinfo.value, NotOffloaded)
    if found:
        setattr(report, _DESELECTED, True)
    return found


class Deselection:
    """A plugin that runs the suite's tests and reports those that were not deselected.

    count: the number of tests that were deselected: in all processes of pytest-xdist for its controller, in
    one of the processes since its last report."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._in_xdist = hasattr(config, "workerinput")
        self._session: pytest.Session | None = None
        self.count = 0

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Does the same as pytest's own, but reports a test after it has run, if at all."""
        if not is_ours(item):
            return None
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if any(hasattr(r, _DESELECTED) for r in reports) and not any(r.failed for r in reports):
            item.ihook.pytest_deselected(items=[item])
            self._deselected(1)
            return True
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            if self._in_xdist:
                setattr(report, _COUNT, self.take())
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def take(self) -> int:
        """The number of tests that were deselected since the last call."""
        taken, self.count = self.count, 0
        return taken

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not self._in_xdist:
            self.add(vars(report).pop(_COUNT, 0))

    def add(self, number: int) -> None:
        """Counts tests that another process has deselected."""
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if number:
            self._deselected(number)
            if reporter is not None:
                # Its own hook does this with tests, which are in the other process. Hypothesis reads the
                # `__dict__` of each.
                reporter.stats.setdefault("deselected", []).extend(SimpleNamespace() for _ in range(number))

    def _deselected(self, number: int) -> None:
        self.count += number
        if self._session is not None and not self._in_xdist:
            # pytest's percentages are shares of it. pytest makes an error of 0 (exit code 5).
            self._session.testscollected = max(1, self._session.testscollected - number)
