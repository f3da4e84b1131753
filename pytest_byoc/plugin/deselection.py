"""Deselects tests for which the target offloads nothing, while the session runs.

Partitioning determines these tests, for one part of the suite at a time: a session that partitioned
all graphs before its first test would report its first failure later. No plugin gets the reports of
such a test: it has no letter, and appears in no JUnit XML and no IDE. Its verdicts are in the
record all the same.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from _pytest.outcomes import Skipped
from _pytest.runner import runtestprotocol

from ..examination.outcome import NOT_OFFLOADED, PASS, Verdict
from .collection import is_ours

#: Attribute that marks the report of a test to be deselected.
_DESELECTED = "byoc_deselected"
#: Attribute of a report with the number of tests that a process of pytest-xdist has deselected
#: before it.
_COUNT = "byoc_deselected_before"


class NotOffloaded(Skipped):
    """Raised by a test of the suite for which the target offloads nothing. If another plugin runs
    the tests, it counts as a skip."""


def deselect(reason: str) -> NoReturn:
    """Ends and deselects the running test of the suite, since the target offloads nothing of its
    graphs."""
    raise NotOffloaded(reason)


def expect_pass(verdict: Verdict) -> None:
    """Ends the running test of the suite unless its graph has passed: deselects the test if nothing
    was offloaded, and skips it if the graph could not be judged."""
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
    """The plugin that runs the suite's tests and reports those that were not deselected.

    count: the number of deselected tests. In the controller of pytest-xdist it is that of all
    processes, in a process of pytest-xdist the number since its last report."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._in_xdist = hasattr(config, "workerinput")
        self._session: pytest.Session | None = None
        self.count = 0

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Runs a test as pytest's own hook does, but reports it only after it has run, or not at
        all."""
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
        """Returns the number of tests that were deselected since the last call."""
        count, self.count = self.count, 0
        return count

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
                # The reporter's own hook appends the tests, which exist in the other process only.
                # Hypothesis reads the `__dict__` of each element.
                reporter.stats.setdefault("deselected", []).extend(SimpleNamespace() for _ in range(number))

    def _deselected(self, number: int) -> None:
        self.count += number
        if self._session is not None and not self._in_xdist:
            # pytest computes its percentages from this number, and ends with exit code 5 if it is
            # 0.
            self._session.testscollected = max(1, self._session.testscollected - number)
