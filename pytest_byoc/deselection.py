"""Tests for which the target offloads nothing are deselected when they come up.

That is found out by partitioning, a part of the suite at a time: a session that partitioned everything first would
show its first failure later. The report of such a test reaches no plugin, so that it has no letter, and is in no
JUnit XML and in no IDE; its outcomes are in the record like any other's.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from _pytest.runner import runtestprotocol

from .collection import is_ours
from .outcome import NOT_OFFLOADED, PASS, Verdict

#: Attribute of the report of a test that is to be deselected.
_DESELECTED = "byoc_deselected"
#: Attribute of a report that says how many tests were deselected before it in a process of pytest-xdist.
_COUNT = "byoc_deselected_before"


class NotOffloaded(pytest.skip.Exception):
    """Raised by a test of the suite for which the target offloads nothing. To whoever runs tests in another way
    than pytest it is a skip."""


def deselect(reason: str) -> NoReturn:
    """Ends the running test of the suite: the target offloads nothing of what it examines."""
    raise NotOffloaded(reason)


def expect_pass(verdict: Verdict) -> None:
    """Ends the running test of the suite unless its graph has passed: deselected where nothing of it is
    offloaded, otherwise skipped, since it could not be judged."""
    if verdict.outcome == NOT_OFFLOADED:
        deselect(verdict.reason)
    if verdict.outcome != PASS:
        pytest.skip(verdict.reason)


def mark(call: pytest.CallInfo[None], report: pytest.TestReport) -> bool:
    """Marks the report of a test that ended by `deselect`; whether it did."""
    found = call.excinfo is not None and isinstance(call.excinfo.value, NotOffloaded)
    if found:
        setattr(report, _DESELECTED, True)
    return found


class Deselection:
    """A plugin: runs the suite's tests, and reports those that were not deselected.

    count: the number of tests that were deselected; in a process of pytest-xdist, since its last report. In the
    controller: of all processes."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._in_xdist = hasattr(config, "workerinput")
        self._session: pytest.Session | None = None
        self.count = 0

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """As pytest's own, but that nothing is reported before it is known that something is to be."""
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
                # As its own hook does, which takes tests: those are in the other process. (Hypothesis looks into
                # the `__dict__` of each.)
                reporter.stats.setdefault("deselected", []).extend(SimpleNamespace() for _ in range(number))

    def _deselected(self, number: int) -> None:
        self.count += number
        if self._session is not None and not self._in_xdist:
            # What pytest's percentages are of. No test at all would be an error of its own (exit code 5).
            self._session.testscollected = max(1, self._session.testscollected - number)
