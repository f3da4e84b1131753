"""Tests random graphs: one test for each operator, which occurs in all graphs of its test."""

from __future__ import annotations

import functools
from itertools import count
from typing import Any

import pytest
from hypothesis import given

from pytest_byoc.examination.outcome import NOT_OFFLOADED, PASS
from pytest_byoc.generation.plans import Plan, plans
from pytest_byoc.plugin.deselection import deselect
from pytest_byoc.suite.batching import GRAPHS
from pytest_byoc.suite.cases import Suite
from pytest_byoc.suite.random_search import RandomSearch
from pytest_byoc.suite.session import TargetSession

#: Attribute of a test that Hypothesis's plugin for pytest sets in each run, and prints with
#: --hypothesis-show-statistics.
_STATISTICS = "hypothesis_statistics"


@pytest.fixture
def search(
    request: pytest.FixtureRequest, byoc_target: TargetSession, byoc_suite: Suite, byoc_operator: str,
    byoc_share_of_time: float,
) -> RandomSearch:
    """Returns the search of the test's operator. Lets it decide how Hypothesis runs the test, since
    that depends on the session."""
    search = RandomSearch(byoc_target, byoc_suite, byoc_operator, byoc_share_of_time)
    test = request.node.obj.hypothesis.inner_test
    first = search.driven(test, 0)

    @functools.wraps(first)
    def run(**fixtures: Any) -> None:
        if not search.possible:
            deselect(
                "not-offloaded: the target offloads the operator in none of its systematic cases, "
                "and in no pattern"
            )
        first(**fixtures)
        statistics = [vars(request.node).get(_STATISTICS, "")]
        for number in count(1):
            if not search.goes_on():
                break
            search.driven(test, number)(**fixtures)
            statistics.append(vars(request.node).get(_STATISTICS, ""))
        setattr(request.node, _STATISTICS, "\n\n".join(statistics))
        outcomes = search.outcomes()
        if outcomes == [NOT_OFFLOADED]:
            deselect("not-offloaded: the target offloads nothing of the graphs")
        if PASS not in outcomes:
            pytest.skip(f"no graph passed: {', '.join(outcomes)}")

    request.node.obj = run
    return search


@given(plan=plans(GRAPHS))
def test_random(search: RandomSearch, plan: Plan) -> None:
    search.examine(plan)
