"""Tests random graphs: one test for each operator, which occurs in all graphs of its test."""

from __future__ import annotations

import time
from collections.abc import Sequence, Set
from functools import partial
from itertools import count, islice

import pytest

from pytest_byoc.config.plan import NUMEROUS, OPENED
from pytest_byoc.core.graph import Graph
from pytest_byoc.examination.outcome import NOT_OFFLOADED, Verdict
from pytest_byoc.generation.batch_sizes import at_batch, batch_size
from pytest_byoc.generation.openings import openings
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.plugin.deselection import deselect
from pytest_byoc.suite.cases import Suite
from pytest_byoc.suite.session import TargetSession

#: The larger batches for which a graph is examined again: one that is no multiple of the old batch
#: (unless that is 1 or 5), and its double.
_LARGER = (lambda batch: 2 * batch + 5, lambda batch: 2 * batch)


def other_batches(candidates: Sequence[Graph], number: int) -> list[Graph]:
    """Returns the first of the graphs that has a batch, for that number of larger batches."""
    for graph in candidates:
        chosen = _LARGER[:number] if batch_size(graph) else ()
        found = [at_batch(graph, larger(batch_size(graph))) for larger in chosen]
        if found and None not in found:
            return [g for g in found if g is not None]
    return []


def test_random(
    byoc_target: TargetSession, byoc_suite: Suite, byoc_operator: str, byoc_share_of_time: float
) -> None:
    options = byoc_target.settings
    case = f"random[{byoc_operator}]"
    offloaded = byoc_suite.offloaded.operators()
    parts = [] if byoc_operator in offloaded else byoc_suite.offloaded.parts_with(byoc_operator)
    if byoc_operator not in offloaded and not parts:
        deselect(
            "not-offloaded: the target offloads the operator in none of its systematic cases, "
            "and in no pattern"
        )
    seen: list[Verdict] = []

    def first_failing(graphs: Sequence[Graph], kinds: Set[str] = frozenset({NUMEROUS})) -> Verdict | None:
        for graph in graphs:
            seen.append(byoc_target.examine(graph, case, kinds))
            if seen[-1].failed and not byoc_target.failures.excused(seen[-1], case):
                return seen[-1]
        return None

    def search(round_: int) -> Verdict | None:
        """Examines random graphs, which depend on the operator, the round and the seed of
        --byoc-explore only. Returns the first failing verdict, or None."""
        start = f"{'' if options.explore is None else options.explore} {byoc_operator} {round_}"
        draw = partial(
            some,
            operators=byoc_suite.offloaded.drawn(),
            ir=byoc_target.ir,
            max_nodes=options.max_nodes,
            prefer=list(offloaded),
            fragments=byoc_target.patterns.fragments(),
        )
        number = options.max_examples
        if parts:
            # An operator that is only offloaded within patterns occurs in whole fragments.
            graphs = [draw(1, f"{start} {i}", fragment=parts[i % len(parts)])[0] for i in range(number)]
        else:
            fit = byoc_suite.offloaded.fit(byoc_operator)
            graphs = draw(number, start, focus=byoc_operator, dtypes=offloaded[byoc_operator], fit=fit)
        module = byoc_target.ahead(graphs, {NUMEROUS})
        failing = first_failing(graphs)
        if failing is None and module is not None and byoc_target.holds_against(module, case):
            return module
        return failing

    start = time.monotonic()
    failing = search(0)
    for round_ in count(1):
        # With --byoc-explore further rounds follow until the test's share of the time is used up.
        if failing is not None or options.explore is None or time.monotonic() - start >= byoc_share_of_time:
            break
        failing = search(round_)
    passed = [v.graph for v in seen if v.outcome == "pass"]
    if failing is None:
        # A larger batch of a graph exposes caches whose key lacks a part of the shape.
        failing = first_failing(other_batches(passed, options.level.batches))
    kinds = {NUMEROUS, OPENED}
    opened = (g for g in passed if not byoc_target.is_plain(g, kinds) and openings(g))
    if failing is None:
        failing = first_failing(list(islice(opened, 1)), kinds)
    if failing is not None:
        byoc_target.fail(failing, case)
    if not passed:
        outcomes = sorted({v.outcome for v in seen})
        why = f"none of {len(seen)} graphs passed: {', '.join(outcomes)}"
        deselect(why) if outcomes == [NOT_OFFLOADED] else pytest.skip(why)
