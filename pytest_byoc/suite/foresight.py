"""Finds out which graphs a test of the suite will have examined, so that they are examined ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from typing import Any, cast

import pytest

from ..config import plan
from ..config.effort import Effort
from ..config.plan import PLAIN
from ..core.graph import Graph
from ..core.union import union
from ..examination.examiner import Examiner
from ..examination.outcome import PASS, Verdict
from . import batching
from .cases import Suite
from .random_search import RandomSearch
from .session import TargetSession


class Foresight:
    """Runs tests of a suite with a stand-in for its session, which takes every graph for one that passes
    and asks for its examination ahead."""

    def __init__(self, suite: Suite, session: TargetSession) -> None:
        self._stand_in = _Session(session)
        self._suite = suite.foreseeing(cast(TargetSession, self._stand_in))

    def foresee(self, test: Callable[..., object]) -> None:
        """Runs a test, a function of `byoc_suite`. What it raises, the real test will raise too."""
        with suppress(Exception, pytest.skip.Exception, pytest.fail.Exception):
            test(byoc_suite=self._suite)


    def foresee_random(self, operator: str) -> None:
        """Runs the first run of a search among random graphs of an operator."""
        with suppress(Exception):
            RandomSearch(cast(TargetSession, self._stand_in), self._suite, operator, 0.0).examine_first()


class _Examiner:
    """A stand-in for an examiner; what it does not have is the examiner's own."""

    def __init__(self, examiner: Examiner, asked: set[bytes]) -> None:
        self._examiner = examiner
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._examiner, name)

    def examine(self, graph: Graph, effort: Effort) -> Verdict:
        """Asks for an examination, if the verdict is unknown."""
        known = self._examiner.recall(graph, effort)
        if known is not None:
            return known
        if graph.digest not in self._asked:
            self._examiner.anticipate(graph, effort)
        return Verdict(graph, PASS)


class _Session:
    """A stand-in for a session; what it does not have is the session's own."""

    def __init__(self, session: TargetSession) -> None:
        self._session = session
        #: The digests of graphs that have been asked for in a module.
        self._asked: set[bytes] = set()
        self.examiner = _Examiner(session.examiner, self._asked)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def check(self, graph: Graph, case: str = "", kinds: Set[str] = PLAIN, shrink: bool = True) -> Verdict:
        return self.examiner.examine(graph, self._session.effort(graph, kinds))

    def examine(self, graph: Graph, case: str, kinds: Set[str] = PLAIN) -> Verdict:
        return self.check(graph, case, kinds)

    def ahead(self, graphs: Sequence[Graph], kinds: Set[str] = PLAIN) -> None:
        session = self._session
        if not session.settings.level.side_by_side:
            return
        effort = plan.effort(session.settings.level, kinds & {plan.NUMEROUS})
        for group in batching.groups(graphs, session.ir):
            tried, how = session.examinations.tried(group.graphs, effort)
            if tried and not self._asked.issuperset(g.digest for g in tried):
                self._asked.update(g.digest for g in tried)
                session.examiner.anticipate(union(tried), how)

    def answer_for(self, graphs: Sequence[Graph], case: str) -> None:
        pass
