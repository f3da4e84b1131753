"""Tests of the records, the generator and the oracle against TVM itself."""

from __future__ import annotations

import os

import numpy as np
import pytest

from benchmarks.soundness import Judged, judge_all, known_fault, random_graphs, wrong_types
from pytest_byoc.core.graph import show
from pytest_byoc.evidence.comparison import lost
from pytest_byoc.examination.client import Worker
from pytest_byoc.generation import data, without_llvm
from pytest_byoc.generation.boundary import SUMS
from pytest_byoc.generation.systematic import cases
from pytest_byoc.operators import OPERATORS
from pytest_byoc.oracle import evaluation

#: Number of random graphs whose types are checked, and of those that LLVM also builds
#: (BYOC_TEST_GRAPHS).
TYPED = 1000
BUILT = int(os.environ.get("BYOC_TEST_GRAPHS", "100"))
#: LLVM builds one in STRIDE systematic cases (all of them with BYOC_TEST_STRIDE=1).
STRIDE = int(os.environ.get("BYOC_TEST_STRIDE", "24"))


def test_systematic_cases_type_check(reference_worker: Worker, ir: str) -> None:
    graphs = [c.graph for c in (*cases(list(OPERATORS), ir), *without_llvm.cases(list(OPERATORS), ir))]
    assert len(graphs) > 300
    wrong = wrong_types(reference_worker, graphs)
    assert not wrong, f"{len(wrong)} of {len(graphs)}; the first:\n{wrong[0]}"


def test_random_graphs_type_check(reference_worker: Worker, ir: str) -> None:
    graphs = random_graphs(TYPED, ir, max_nodes=10)
    assert len(set(graphs)) > 0.99 * TYPED
    assert {n.op for g in graphs for n in g.nodes} == {o for o in OPERATORS if ir in OPERATORS[o].irs()}
    wrong = wrong_types(reference_worker, graphs)
    assert not wrong, f"{len(wrong)} of {len(graphs)}; the first:\n{wrong[0]}"


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
    assert sum(len(j.ratios) for j in judged) > 1000
    # Each graph counts once: a large tensor in half precision would decide otherwise.
    ratios = [np.median(j.ratios) for j in judged if len(j.ratios)]
    assert np.median(ratios) < 1e-5
    assert np.percentile(ratios, 90) < 1e-3


def test_systematic_cases_are_inside_the_bound(reference_worker: Worker, ir: str) -> None:
    wrong = []
    selected = cases(list(OPERATORS), ir)[::STRIDE]
    for case, result in zip(selected, judge_all(reference_worker, [c.graph for c in selected], ir)):
        if unexplained(result, ir):
            wrong.append(f"{case.id}: {result.fault}")
        elif result.fault is None and result.share < 0.5:
            wrong.append(f"{case.id}: only {result.share:.0%} of the elements can be judged")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:20])


def test_averages_whose_narrow_sums_overflow_are_judged(reference_worker: Worker, ir: str) -> None:
    """LLVM adds up norms in float32. A target whose sums are infinite, or whose result is then zero,
    is wrong, although the result is ambiguous."""
    names = [name for name, op in OPERATORS.items() if op.averages]
    graphs = {c.operator: c.graph for c in cases(names, ir) if c.id.endswith(f"{SUMS}]")}
    judged = set()
    for name, graph in graphs.items():
        inputs, constants = data.inputs(graph, 0), data.constants(graph)
        job = {"kind": "examine", "graph": graph.to_dict(), "inputs": [inputs], "constants": constants}
        reference_worker.submit({**job, "checks": [], "executor": "vm", "opt_level": 1, "pass_config": {}})
        (llvm,) = [value["arrays"][0] for _, value in reference_worker.collect().facts("outputs")]
        (expected,) = evaluation.evaluate(graph, {**constants, **inputs})
        assert expected.ambiguous.any() and not lost(llvm, expected, llvm).any()
        assert lost(np.full_like(llvm, np.nan), expected, None).any()
        wrong = [lost(np.full_like(llvm, value), expected, llvm).mean() > 0.5 for value in (np.inf, 0)]
        if all(wrong):
            judged.add(name)
    norms = {name for name in graphs if name.endswith("_norm")}
    assert norms and norms <= judged
