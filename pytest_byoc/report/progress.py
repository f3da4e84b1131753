"""Lines of progress: outcomes so far, the time that is left, and the activity that the session
waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from dataclasses import astuple
from typing import Any

import pytest

from ..examination.activity import Activity
from ..examination.outcome import OUTCOMES
from ..record.target_record import TargetRecord
from .time_estimate import OWN, Finished, Work
from .words import counted, duration

#: Seconds before the first line; between lines on a terminal; between lines in a pipe or a CI job's
#: log.
FIRST, INTERVAL, ELSEWHERE = 3.0, 20.0, 30.0
#: Seconds after which an activity, or the running test, is named.
_LONG = 2.0
#: Attribute of a test's report that tells pytest-xdist's controller the tests finished since the
#: last report.
_FINISHED = "byoc_finished"


class Progress:
    """A plugin that writes the lines. In a process of pytest-xdist it reports the finished tests to
    the controller instead.

    kind_of: returns the kind of a test, by which its cost is guessed. within_budget: limits an
    estimate of seconds to the time budget."""

    def __init__(
        self, config: pytest.Config, records: Sequence[TargetRecord], activity: Activity, work: Work,
        kind_of: Callable[[pytest.Item], str], within_budget: Callable[[float], float], controller: bool,
    ) -> None:
        self._config = config
        self._records = records
        self._activity = activity
        self._work = work
        self._kind_of = kind_of
        self._within_budget = within_budget
        self._controller = controller
        self._in_xdist = hasattr(config, "workerinput")
        self._interval: float | None = None
        self._begin = self._last = time.monotonic()
        self._first = True
        #: The running test with the time of its start, and whether it was deselected.
        self._test: tuple[str, float] | None = None
        self._deselected = False
        #: Finished tests that were not yet reported to the controller.
        self._unsent: list[Finished] = []
        self._processes: set[str] = set()
        self._ended = threading.Event()

    # --- hooks -------------------------------------------------------------------------------

    def pytest_sessionstart(self) -> None:
        """Starts the lines; pytest's reporter does not exist before this hook."""
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        option = self._config.option
        # Programs read a list of tests.
        if self._in_xdist or reporter is None or option.verbose < -1 or option.collectonly:
            return
        # pytest 8.0 has an attribute, later versions have a method.
        terminal = reporter.isatty() if callable(reporter.isatty) else reporter.isatty
        self._interval = INTERVAL if terminal else ELSEWHERE
        if self._controller:
            threading.Thread(target=self._tick_in_silence, daemon=True).start()

    def pytest_sessionfinish(self) -> None:
        self._ended.set()

    def pytest_itemcollected(self) -> None:
        self.tick()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._work.plan(map(self._kind_of, session.items))

    def pytest_deselected(self) -> None:
        self._deselected = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        begin, beside = time.monotonic(), self._activity.seconds
        self._test, self._deselected = (item.name, begin), False
        result = yield
        seconds = time.monotonic() - begin - (self._activity.seconds - beside)
        finished = Finished(self._kind_of(item), seconds, not self._deselected)
        self._work.finish(finished)
        self._test = None
        if self._in_xdist:
            self._unsent.append(finished)
        self.tick()
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._in_xdist:
            sent = (dict(self._work.planned), [astuple(f) for f in self._unsent])
            setattr(report, _FINISHED, sent)
            self._unsent = []
        elif self._controller:
            self._processes.add(str(getattr(report, "worker_id", "")))
            planned, finished = vars(report).pop(_FINISHED, ({}, []))
            self._work.planned.update(planned if not self._work.planned else {})
            for values in finished:
                self._work.finish(Finished(*values))

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self) -> None:
        if self._controller:
            self.tick()

    # --- lines -------------------------------------------------------------------------------

    def _tick_in_silence(self) -> None:
        """Runs in the controller of pytest-xdist, which calls no hook while it waits for its
        processes."""
        while not self._ended.wait(1.0):
            self.tick()

    def tick(self) -> None:
        """Writes a line if one is due."""
        now = time.monotonic()
        if self._interval is None or now - self._last < (FIRST if self._first else self._interval):
            return
        if set(self._work.planned) == {OWN} and not self._outcomes():
            # These are a project's ordinary tests; its ini file names a target.
            return
        self._last, self._first = now, False
        capture: Any = self._config.pluginmanager.get_plugin("capturemanager")
        inside = capture is not None and not self._controller
        with capture.global_and_fixture_disabled() if inside else nullcontext():
            reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
            reporter.ensure_newline()
            writer = self._config.get_terminal_writer()
            if writer.width_of_current_line:
                # Under pytest-xdist the reporter does not know that it is in the middle of a line
                # of dots.
                writer.line()
            writer.line(self.line(now), light=True)
            writer.flush()

    def line(self, now: float) -> str:
        """Returns the line at a time of `time.monotonic`."""
        parts = [duration(now - self._begin)]
        planned = self._work.planned.total()
        if self._work.done:
            parts = [f"{self._work.done} of {counted(planned, 'test')} in {parts[0]}"]
            if self._work.done < planned:
                left = self._within_budget(self._work.seconds_left() / max(1, len(self._processes)))
                parts[0] += f", {_about(left)} left"
        found = self._outcomes()
        if found:
            parts[-1] += ": " + ", ".join(f"{n} {outcome}" for outcome, n in found.items())
        return "byoc: " + "; ".join([*parts, *self._waiting(now)])

    def _outcomes(self) -> dict[str, int]:
        """Returns the number of graphs so far, by outcome."""
        counts = {o: sum(r.outcomes[o] for r in self._records) for o in OUTCOMES}
        return {outcome: n for outcome, n in counts.items() if n}

    def _waiting(self, now: float) -> list[str]:
        """Returns the activity, or the running test, if it takes long."""
        doing = self._activity.in_words(_LONG)
        if doing:
            return [doing]
        if self._test is not None and now - self._test[1] > _LONG:
            return [f"{self._test[0]} has been running for {now - self._test[1]:.0f} s"]
        if self._controller and not self._work.done:
            return ["the processes of pytest-xdist start workers, collect tests and partition graphs"]
        if not self._work.done:
            return ["the first test is running" if self._work.planned else "collecting tests"]
        return []


def _about(seconds: float) -> str:
    """Returns an estimated duration, rounded to digits that an estimate can have."""
    if seconds < 100:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    return f"about {duration(60 * round(seconds / 60)).removesuffix(' 0 s')}"
