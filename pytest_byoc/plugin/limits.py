"""The limits of a session: a time budget and a number of causes of failures."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from ..config.settings import Settings
from ..examination.activity import Activity
from ..results.unfinished import Unfinished
from ..suite.session import TargetSession


class Limits(Unfinished):
    """The limits of one session, which decide whether a test of the suite begins."""

    def __init__(
        self, settings: Settings, activity: Activity, is_suites: Callable[[pytest.Item], bool]
    ) -> None:
        super().__init__()
        self._settings = settings
        self._activity = activity
        self._is_suites = is_suites
        self._start = time.monotonic()
        #: Number of tests of random graphs in all processes of pytest-xdist, and of those run by
        #: this one.
        self.random, self.random_done = 0, 0

    def stop_out_of_time(self) -> None:
        """Skips the test that is about to begin if the time budget is used up."""
        budget = self._settings.time_budget
        if budget is not None and self._spent() > budget:
            self.out_of_time += 1
            pytest.skip(f"not checked: the time budget of {budget:g} s is used up")

    def stop_at_enough(self, item: pytest.Item, target: TargetSession, targets: list[TargetSession]) -> None:
        """Skips a test if as many causes of failures of its target are known as --byoc-max-causes
        allows. Ends the session if that is so for all targets and there are no tests of the user's
        own."""
        said = target.known.why_enough()
        if not said:
            return
        alone = not hasattr(item.config, "workeroutput") and all(map(self._is_suites, item.session.items))
        if alone and all(t.known.why_enough() for t in targets):
            item.session.shouldfail = f"{target.record.target}: {said} (--byoc-max-causes)"
            self.left_out[said] += len(item.session.items) - item.session.items.index(item)
        else:
            self.left_out[said] += 1
        pytest.skip(f"not checked: {said}")

    def share_of_time(self) -> float:
        """Returns the seconds that a test of random graphs may take: an equal share of the rest of
        the time budget for each such test that this process is still to run; 0 without a budget."""
        budget = self._settings.time_budget
        if budget is None:
            return 0.0
        processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        left = max(1.0, self.random / processes - self.random_done)
        return (budget - self._spent()) / left

    def within_budget(self, seconds: float) -> float:
        """Returns the estimate of the seconds left, limited by the time budget. With --byoc-explore
        it is the rest of the budget, all of which is used."""
        budget = self._settings.time_budget
        if budget is None:
            return seconds
        left = max(0.0, budget - self._spent())
        return left if self._settings.explore is not None else min(seconds, left)

    def _spent(self) -> float:
        """Returns the seconds of the time budget that are spent. The import of ONNX's node tests,
        made once for each TVM, does not count."""
        return time.monotonic() - self._start - self._activity.uncharged
