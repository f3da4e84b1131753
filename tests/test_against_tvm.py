"""The records, the generator and the oracle against TVM itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from pytest_byoc import oracle
from pytest_byoc.evidence import compare
from pytest_byoc.generation import data
from pytest_byoc.generation.strategies import graphs
from pytest_byoc.generation.systematic import cases
from pytest_byoc.graph import Graph, show
from pytest_byoc.operators import OPERATORS
from pytest_byoc.worker.client import Worker

#: Random graphs whose types are checked, and those that are also built by LLVM (more on demand).
TYPED = 2000
BUILT = int(os.environ.get("BYOC_TEST_GRAPHS", "300"))
#: One in so many systematic cases is built by LLVM (all of them with BYOC_TEST_STRIDE=1).
STRIDE = int(os.environ.get("BYOC_TEST_STRIDE", "8"))


def random_graphs(count: int, ir: str, **options: Any) -> list[Graph]:
    """The first graphs Hypothesis makes, the same every time."""
    found: list[Graph] = []

    @settings(
        max_examples=count, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(graphs(ir=ir, **options))
    def collect(graph: Graph) -> None:
        found.append(graph)

    collect()
    return found


def typed(worker: Worker, found: list[Graph]) -> Iterator[tuple[Graph, Any]]:
    """Each graph with the output types TVM infers, or what it raised."""
    for start in range(0, len(found), 100):
        chunk = found[start : start + 100]
        entries = [{"graph": g.to_dict(), "constants": data.constants(g)} for g in chunk]
        worker.submit({"kind": "types", "graphs": entries})
        report = worker.collect()
        assert report.died is None, report.end
        yield from zip(chunk, (value for _, value in report.facts("types")))


def wrong_types(worker: Worker, found: list[Graph]) -> list[str]:
    wrong = []
    for graph, types in typed(worker, found):
        if types != [str(graph.type_of(o)) for o in graph.outputs]:
            wrong.append(f"TVM says {types} of\n{show(graph)}")
    return wrong


def test_systematic_cases_type_check(reference_worker: Worker, ir: str) -> None:
    found = [c.graph for c in cases(list(OPERATORS), ir)]
    assert len(found) > 300
    wrong = wrong_types(reference_worker, found)
    assert not wrong, f"{len(wrong)} of {len(found)}; the first:\n{wrong[0]}"


def test_random_graphs_type_check(reference_worker: Worker, ir: str) -> None:
    found = random_graphs(TYPED, ir, max_nodes=10)
    assert len(found) == TYPED
    assert {n.op for g in found for n in g.nodes} == {o for o in OPERATORS if ir in OPERATORS[o].irs()}
    wrong = wrong_types(reference_worker, found)
    assert not wrong, f"{len(wrong)} of {len(found)}; the first:\n{wrong[0]}"


#: Faults of TVM's own that the records can't reasonably avoid, by what its build says: apache-tvm 0.27
#: makes invalid LLVM code of some average pools (a window of (2, 3) with dilation (2, 2), for one).
KNOWN_TVM_FAULTS = ("Instruction does not dominate all uses",)


def unexplained(fault: str | None) -> bool:
    return fault is not None and not any(known in fault for known in KNOWN_TVM_FAULTS)


def outside(worker: Worker, executor: str, graph: Graph) -> tuple[str | None, float, list[float]]:
    """What LLVM gets wrong by the bound (None: nothing); the share of elements judged; the ratios of
    bound to value of float32 outputs."""
    inputs, constants = data.inputs(graph, 0), data.constants(graph)
    worker.submit(
        {
            "kind": "examine", "graph": graph.to_dict(), "inputs": [inputs], "constants": constants,
            "executor": executor, "opt_level": 1,
        }
    )
    expected = oracle.evaluate(graph, {**inputs, **constants})
    report = worker.collect()
    judged = elements = 0
    ratios: list[float] = []
    fault = None
    raised = next(report.raised(), None)
    if report.died or raised:
        fault = f"LLVM's build fails: {report.died or raised}"
    for _, value in report.facts("outputs"):
        for actual, bounded in zip(value["arrays"], expected):
            assert actual.shape == bounded.shape
            comparison = compare(actual, bounded)
            judged += int(comparison.judged.sum())
            elements += actual.size
            if comparison.outside.any():
                at = tuple(np.argwhere(comparison.outside)[0])
                fault = (
                    f"at {at}: {actual[at]!r}, expected {bounded.value[at]!r} within {bounded.error[at]:.3g}"
                )
            if bounded.dtype == "float32":
                use = comparison.judged & np.isfinite(bounded.value) & (np.abs(bounded.value) > 1e-3)
                ratios += (bounded.error[use] / np.abs(bounded.value[use])).tolist()
    return fault, judged / max(elements, 1), ratios


@pytest.fixture(scope="module")
def judged(reference_worker: Worker, ir: str) -> list[tuple[Graph, str | None, float, list[float]]]:
    executor = reference_worker.description["executors"][0]
    return [(g, *outside(reference_worker, executor, g)) for g in random_graphs(BUILT, ir)]


def test_bound_is_sound(judged: list[tuple[Graph, str | None, float, list[float]]]) -> None:
    """LLVM's own results lie inside the bound."""
    wrong = [f"{fault}\n{show(graph)}" for graph, fault, _, _ in judged if unexplained(fault)]
    assert not wrong, f"{len(wrong)} of {len(judged)}; the first:\n" + "\n\n".join(wrong[:3])


def test_bound_is_tight(judged: list[tuple[Graph, str | None, float, list[float]]]) -> None:
    """Few graphs cannot be judged, and the bound is near the dtype's precision."""
    inconclusive = sum(share < 0.5 for _, _, share, _ in judged)
    assert inconclusive / len(judged) < 0.05
    ratios = np.array([r for *_, graph_ratios in judged for r in graph_ratios])
    assert ratios.size > 1000
    assert np.median(ratios) < 1e-5
    assert np.percentile(ratios, 90) < 1e-3


def test_systematic_cases_are_inside_the_bound(reference_worker: Worker, ir: str) -> None:
    executor = reference_worker.description["executors"][0]
    wrong = []
    for case in cases(list(OPERATORS), ir)[::STRIDE]:
        fault, share, _ = outside(reference_worker, executor, case.graph)
        if unexplained(fault):
            wrong.append(f"{case.id}: {fault}")
        elif fault is None and share < 0.5:
            wrong.append(f"{case.id}: only {share:.0%} of the elements can be judged")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong[:20])
