"""Runs one shard of a session (--byoc-shard): leaves the tests of the others out, and keeps what
`merge` has to know to judge all of them as one session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ..config.settings import Settings
from ..config.shard import Shard
from ..examination.outcome import ConformanceFailure
from ..gate.baseline import Baseline
from ..record.sighting import Sighting
from ..report.words import counted
from ..results.unfinished import Unfinished
from ..suite.session import TargetSession
from .collection import Collection, costs, is_ours
from .division import Key, costs_of, divide, unit_of

#: Attribute of a test's report: whether the test failed by nothing but failures of the target.
_BY_TARGET = "byoc_failed_by_target"
#: Key of pytest-xdist's `workeroutput` for the numbers and the digest of the division.
_DIVIDED = "byoc_divided"


class Sharding:
    """The plugin of a shard.

    costs: the report whose durations divide the tests. limits: what the session did not begin."""

    def __init__(
        self, shard: Shard, settings: Settings, collection: Collection, sessions: Sequence[TargetSession],
        costs: Baseline | None, limits: Unfinished,
    ) -> None:
        self.shard = shard
        self._settings = settings
        self._collection = collection
        self._sessions = sessions
        self._costs = costs
        self._limits = limits
        #: Selected tests of other shards.
        self.elsewhere: list[pytest.Item] = []
        #: Id of a test to its position in the whole session.
        self._positions: dict[str, int] = {}
        self._divided: dict[str, Any] = {"digest": "", "whole": 0, "here": 0}
        #: Id of a failed test to whether it failed by nothing but failures of the target.
        self._failed: dict[str, bool] = {}

    def __str__(self) -> str:
        tests = counted(self._divided["whole"], "test")
        return f"{self.shard}: {self._divided['here']} of {tests}"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leaves out the tests of other shards, when all other choices have been made."""
        tests: dict[Key, list[str]] = {}
        kinds: dict[Key, list[str]] = {}
        keys: list[Key] = []
        for position, item in enumerate(items):
            number = self._collection.position_of(item)
            key = number, unit_of(item, self._sessions[number])
            keys.append(key)
            # The path of the suite differs between machines.
            name = f"{item.path.name}::{item.name}" if is_ours(item) else item.nodeid
            tests.setdefault(key, []).append(name)
            kinds.setdefault(key, []).append(self._collection.kind_of(item))
            self._positions[item.nodeid] = position
        seconds = costs_of(kinds, costs(self._settings.level), self._known(tests))
        division = divide(tests, seconds, self.shard.of)
        here = [division.shards[key] == self.shard.number for key in keys]
        self.elsewhere = [item for item, ours in zip(items, here) if not ours]
        self._divided = {"digest": division.digest, "whole": len(items), "here": sum(here)}
        if self.elsewhere:
            config.hook.pytest_deselected(items=self.elsewhere)
            items[:] = [item for item, ours in zip(items, here) if ours]

    def _known(self, keys: Sequence[Key] | dict[Key, list[str]]) -> dict[Key, float]:
        """Returns the durations that are known of units of tests."""
        found: dict[Key, float] = {}
        for number, target in enumerate(self._sessions):
            before = self._costs and self._costs.targets.get((target.record.target, target.record.ir))
            durations = before.durations if before else {}
            found |= {(number, unit): s for unit, s in durations.items() if (number, unit) in keys}
        return found

    def pytest_report_collectionfinish(self) -> str:
        return f"byoc: {self}"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        for target in self._sessions:
            # Another plugin may have added a test since.
            target.failures.place = (self._positions.get(item.nodeid, len(self._positions)), item.nodeid)

    def note_failure(self, raised: BaseException | None, report: pytest.TestReport) -> None:
        """Notes on the report of a failed test whether nothing but the target's failures failed it."""
        setattr(report, _BY_TARGET, isinstance(raised, ConformanceFailure))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            by_target = bool(getattr(report, _BY_TARGET, False))
            self._failed[report.nodeid] = by_target and self._failed.get(report.nodeid, True)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[_DIVIDED] = self._divided

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Takes over what a process of pytest-xdist knows, since the controller collects nothing."""
        self._divided = getattr(node, "workeroutput", {}).get(_DIVIDED, self._divided)

    def section(self, exit_code: int, deselected: int) -> dict[str, Any]:
        """Returns the `shard` of report.json. A shard without tests, of a session that has some, did
        what it was to do."""
        if exit_code == pytest.ExitCode.NO_TESTS_COLLECTED and self._divided["whole"]:
            exit_code = int(pytest.ExitCode.OK)
        return {
            "number": self.shard.number,
            "of": self.shard.of,
            **self._divided,
            "exit": exit_code,
            "failed": self._failed,
            "deselected": deselected,
            "out_of_time": self._limits.out_of_time,
            "left_out": dict(self._limits.left_out),
            "narrowed": list(self._settings.narrowed),
            "stages": self._settings.stages,
            "targets": [
                {
                    "selection": selection.as_dict(),
                    "sightings": [s.as_dict() for s in sorted(target.record.sightings, key=_position)],
                }
                for target, selection in zip(self._sessions, self._collection.selections)
            ],
        }


def _position(sighting: Sighting) -> int:
    return sighting.position
