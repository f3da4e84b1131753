"""Random graphs, each operator in turn being the one that every graph holds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count

import pytest

from pytest_byoc.generation.batches import at_batch, batch_size
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.graph import Graph
from pytest_byoc.outcome import Verdict
from pytest_byoc.session import TargetSession

#: How much larger the batches are for which a graph is examined again: no multiple, and the double.
_LARGER = (lambda batch: 2 * batch + 5, lambda batch: 2 * batch)


class _Found(Exception):
    """Ends Hypothesis's search; carries the failing verdict out of it."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict


def other_batches(candidates: Sequence[Graph], number: int) -> list[Graph]:
    """The first graph that has a batch, for so many larger ones."""
    for graph in candidates:
        chosen = _LARGER[:number] if batch_size(graph) else ()
        found = [at_batch(graph, larger(batch_size(graph))) for larger in chosen]
        if found and None not in found:
            return [g for g in found if g is not None]
    return []


def test_random(byoc_target: TargetSession, byoc_operator: str) -> None:
    options = byoc_target.settings
    case = f"random[{byoc_operator}]"
    claimed = byoc_target.suite.claimed()
    if byoc_operator not in claimed:
        pytest.skip("not-offloaded: the target takes it in none of its systematic cases")
    failing: Verdict | None
    passed: list[Verdict] = []
    seen: list[Verdict] = []

    def examine(graph: Graph) -> Verdict:
        verdict = byoc_target.examine(graph, case, many=True)
        seen.append(verdict)
        if verdict.failed and not byoc_target.excused(verdict, case):
            raise _Found(verdict)
        return verdict

    def search(round_: int) -> None:
        """Some random graphs: always the same ones, or those of a seed."""
        graphs = some(
            options.max_examples,
            f"{'' if options.explore is None else options.explore} {byoc_operator} {round_}",
            operators=byoc_target.suite.drawn(),
            ir=byoc_target.ir,
            max_nodes=options.max_nodes,
            focus=byoc_operator,
            prefer=list(claimed),
            fragments=byoc_target.fragments(),
            dtypes=claimed[byoc_operator],
        )
        module = byoc_target.ahead(graphs, many=True)
        passed.extend(v for v in map(examine, graphs) if v.outcome == "pass")
        if module is not None and byoc_target.holds_against(module, case):
            raise _Found(module)

    start, share = time.monotonic(), byoc_target.share_of_time()
    try:
        search(0)
        for round_ in count(1):
            # The time that is there for exploring is used.
            if options.explore is None or time.monotonic() - start >= share:
                break
            search(round_)
        # One of them for larger batches: what is cached by less than the whole shape is found out.
        for larger in other_batches([v.graph for v in passed], options.level.batches):
            examine(larger)
    except _Found as found:
        failing = found.verdict
    else:
        failing = None
    if failing is not None:
        byoc_target.fail(failing, case)
    if not passed:
        outcomes = sorted({v.outcome for v in seen})
        pytest.skip(f"none of {len(seen)} graphs passed: {', '.join(outcomes)}")
