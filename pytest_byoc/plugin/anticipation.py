"""Has graphs of the next tests examined while a test runs."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from ..suite.cases import Suite
from ..suite.foresight import Foresight
from ..suite.session import TargetSession
from .collection import Collection, is_ours, is_random

#: The number of requests that wait at most, for each thread; and of tests that are looked at for them.
WAITING, TESTS = 8, 160


class Anticipation:
    """The plugin that looks ahead, registered together with `ActivePlugin`."""

    def __init__(
        self, collection: Collection, sessions: Sequence[TargetSession], suites: Sequence[Suite]
    ) -> None:
        self._collection = collection
        self._sessions = sessions
        self._suites = suites
        self._foresights: dict[int, Foresight] = {}
        self._items: list[pytest.Item] = []
        self._positions: dict[pytest.Item, int] = {}
        #: The position of the first test that has not been looked at.
        self._next = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._items = list(session.items)
        self._positions = {item: position for position, item in enumerate(self._items)}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        if not is_ours(item) or item not in self._positions:
            return
        number = self._collection.position_of(item)
        ahead = self._sessions[number].examiner.ahead
        if not ahead.is_on:
            return
        position = self._positions[item]
        self._next = max(self._next, position)
        for following in self._items[self._next : position + 1 + TESTS]:
            if ahead.left >= WAITING * ahead.number:
                return
            self._see(following, number)
            self._next += 1

    def _see(self, item: pytest.Item, number: int) -> None:
        """Asks for the graphs of a test of the target with this number."""
        if not is_ours(item) or self._collection.position_of(item) != number:
            return
        assert isinstance(item, pytest.Function)
        parameters: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
        names = inspect.signature(item.obj).parameters
        given = {name: parameters[name] for name in names if name in parameters}
        if number not in self._foresights:
            self._foresights[number] = Foresight(self._suites[number], self._sessions[number])
        if is_random(item):
            self._foresights[number].foresee_random(parameters["byoc_operator"])
            return
        if "byoc_suite" not in names or len(given) + 1 < len(names):
            return
        self._foresights[number].foresee(partial(item.obj, **given))
