"""The records, the generator and the oracle against TVM itself."""

from __future__ import annotations

import os

import numpy as np
import pytest

from benchmarks.soundness import Judged, judge_all, known_fault, random_graphs, wrong_types
from pytest_byoc.core.graph import show
from pytest_byoc.examination.client import Worker
from pytest_byoc.generation import beyond
from pytest_byoc.generation.systematic import cases
from pytest_byoc.operators import OPERATORS

#: Random graphs whose types are checked, and those that are also built by LLVM (more on demand).
TYPED = 2000
BUILT = int(os.environ.get("BYOC_TEST_GRAPHS", "150"))
#: One in so many systematic cases is built by LLVM (all of them with BYOC_TEST_STRIDE=1).
STRIDE = int(os.environ.get("BYOC_TEST_STRIDE", "16"))


def test_systematic_cases_type_check(reference_worker: Worker, ir: str) -> None:
    found = [c.graph for c in (*cases(list(OPERATORS), ir), *beyond.cases(list(OPERATORS), ir))]
    assert len(found) > 300
    wrong = wrong_types(reference_worker, found)
    assert not wrong, f"{len(wrong)} of {len(found)}; the first:\n{wrong[0]}"


def test_random_graphs_type_check(reference_worker: Worker, ir: str) -> None:
    found = random_graphs(TYPED, ir, max_nodes=10)
    assert len(set(found)) > 0.99 * TYPED
    assert {n.op for g in found for n in g.nodes} == {o for o in OPERATORS if ir in OPERATORS[o].irs()}
    wrong = wrong_types(reference_worker, found)
    assert not wrong, f"{len(wrong)} of {len(found)}; the first:\n{wrong[0]}"


@pytest.fixture(scope="module")
def judged(reference_worker: Worker, ir: str) -> list[Judged]:
    return list(judge_all(reference_worker, random_graphs(BUILT, ir), ir))


def unexplained(j: Judged, ir: str) -> bool:
    return j.fault is not None and known_fault(j.graph, j.fault, ir) is None


def test_bound_is_sound(judged: list[Judged], ir: str) -> None:
    """LLVM's own results lie inside the bound."""
    wrong = [f"{j.fault}\n{show(j.graph)}" for j in judged if unexplained(j, ir)]
    assert not wrong, f"{len(wrong)} of {len(judged)}; the first:\n" + "\n\n".join(wrong[:3])


def test_bound_is_tight(judged: list[Judged]) -> None:
    """Few graphs cannot be judged, and the bound is near the dtype's precision."""
    inconclusive = sum(j.share < 0.5 for j in judged)
    assert inconclusive / len(judged) < 0.05
    ratios = np.array([r for j in judged for r in j.ratios])
    assert ratios.size > 1000
    assert np.median(ratios) < 1e-5
    assert np.percentile(ratios, 90) < 1e-3


def test_systematic_cases_are_inside_the_bound(reference_worker: Worker, ir: str) -> None:
    wrong = []
    chosen = cases(list(OPERATORS), ir)[::STRIDE]
    for case, found in zip(chosen, judge_all(reference_worker, [c.graph for c in chosen], ir)):
        if unexplained(found, ir):
            wrong.append(f"{case.id}: {found.fault}")
        elif found.fault is None and found.share < 0.5:
            wrong.append(f"{case.id}: only {found.share:.0%} of the elements can be judged")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:20])
