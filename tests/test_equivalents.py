"""Tests of graphs that compute the same: how they are made, run and compared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from fixtures.faults import FAULTS, apply
from pytest_byoc.checks import equivalent
from pytest_byoc.config import plan
from pytest_byoc.core.graph import Graph, TensorType
from pytest_byoc.evidence.self_comparison import too_far
from pytest_byoc.examination.examiner import Examiner
from pytest_byoc.examination.outcome import PASS
from pytest_byoc.generation import data
from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.equivalents import equivalents
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.oracle import evaluation
from pytest_byoc.reference_kernels import Bounded
from pytest_byoc.reference_kernels.bounded import exact

from .conftest import PYTHON, declaration, make_settings


def sample(dtype: str = "float32") -> Graph:
    """A value is read twice, its readers' results are added, and a third is added to the sum."""
    b = Builder(seed=1)
    x, y = (b.input(TensorType((4, 3), dtype)) for _ in range(2))
    first = b.node("maximum", (x, y), {})[0]
    left, right = b.node("multiply", (first, x), {})[0], b.node("subtract", (first, y), {})[0]
    total = b.node("add", (left, right), {})[0]
    return b.graph(b.node("add", (total, y), {})[0])


def changes(graph: Graph, ir: str = "relax") -> list[str]:
    return sorted({e.change for e in equivalents(graph, ir)})


@pytest.mark.once
def test_the_changes_of_a_graph() -> None:
    assert changes(sample()) == [
        "%v0 is computed for each of its readers",
        "%v2 is split and joined again",
        "%v2 passes two transposes, the second of which undoes the first",
        "TVM itself runs operators between those that make and read %v2",
        "the batch is split, computed in two parts, and joined",
        "the operands of operators that commute are swapped",
        "zero is added to %v2",
    ]


@pytest.mark.once
def test_sums_of_integers_alone_are_reassociated() -> None:
    words = "the sum %v4 of three is taken from the right"
    assert words in changes(sample("int32")) and words not in changes(sample())


@pytest.mark.once
def test_a_scalar_has_no_axis_to_be_changed() -> None:
    b = Builder(seed=1)
    x = b.input(TensorType((), "float32"))
    graph = b.graph(b.simple("nn.relu", b.simple("exp", x)))
    assert changes(graph) == [
        "TVM itself runs operators between those that make and read %v0", "zero is added to %v0",
    ]


def values(graph: Graph, of: Graph) -> list[Bounded]:
    return evaluation.evaluate(graph, {**data.constants(graph), **data.inputs(of, 0)})


def apart(one: Bounded, other: Bounded) -> bool:
    """Returns whether the same element of two results has bounds that do not meet."""
    assert (one.shape, one.dtype) == (other.shape, other.dtype)
    known = ~(one.ambiguous | other.ambiguous) & np.isfinite(one.value) & np.isfinite(other.value)
    with np.errstate(all="ignore"):
        distance = np.abs(one.value.astype(np.float64) - other.value.astype(np.float64))
    return bool((distance > one.error + other.error)[known].any())


@pytest.mark.once
def test_random_graphs_compute_the_same_by_the_reference_kernels() -> None:
    seen: dict[str, int] = {}
    for graph in some(120, "equivalent", ir="relax", max_nodes=6):
        expected = values(graph, graph)
        for e in equivalents(graph, "relax"):
            kind = " ".join(word for word in e.change.split() if not word.startswith("%"))
            if "batch" in kind:
                # An operator may mix the elements of a batch, which no type rule tells.
                continue
            seen[kind] = seen.get(kind, 0) + 1
            assert not any(map(apart, expected, values(e.graph, graph))), (e.change, graph.to_json())
    assert len(seen) >= 6 and min(seen.values()) >= 1


@pytest.mark.once
def test_the_parts_of_a_batch_give_the_whole() -> None:
    (found,) = (e for e in equivalents(sample(), "relax") if "batch" in e.change)
    assert [n.op for n in found.graph.nodes].count("maximum") == 2
    assert found.graph.nodes[0].types[0].shape == (1, 3) and found.graph.nodes[0].types[1].shape == (3, 3)
    for one, other in zip(values(sample(), sample()), values(found.graph, sample())):
        assert np.array_equal(one.value, other.value)


# --- outputs of two graphs -----------------------------------------------------------------------


def unjudged(value: Sequence[float], ambiguous: Sequence[bool] = ()) -> Bounded:
    """Returns a value whose bound is larger than itself."""
    found = exact(np.array(value), "float32")
    mask = np.array(ambiguous or [False] * len(value))
    return Bounded(found.value, np.full(len(value), 1e6), mask, "float32")


@pytest.mark.once
@pytest.mark.parametrize(("other", "far"), [(1.0, False), (1.3, False), (1.5, True), (float("nan"), True)])
def test_results_may_differ_as_llvms_errors_do(other: float, far: bool) -> None:
    """LLVM is 0.05 off in both graphs, so 0.4 is allowed."""
    expected = (unjudged([1.0, 2.0]), unjudged([1.0, 2.0]))
    llvm = [np.array([1.05, 2.0], np.float32), np.array([0.95, 2.0], np.float32)]
    found = too_far(np.float32([1.0, 2.0]), np.float32([other, 2.0]), expected, llvm)
    assert (found is not None) == far
    assert found is None or found.mask.tolist() == [True, False]


@pytest.mark.once
def test_one_of_several_ambiguous_elements_may_be_anything() -> None:
    expected = tuple(unjudged([1.0, 2.0, 3.0], [True] * 3) for _ in range(2))
    llvm = [np.float32([1.0, 2.0, 3.0])] * 2
    first = np.float32([1.0, 2.0, 3.0])
    assert too_far(first, np.float32([9.0, 2.0, 3.0]), expected, llvm) is None
    far = too_far(first, np.float32([9.0, 9.0, 3.0]), expected, llvm)
    assert far is not None and far.mask.tolist() == [True, True, False]


@pytest.mark.once
def test_graphs_that_do_not_compute_the_same_are_not_compared() -> None:
    expected = (unjudged([1.0, 2.0]), unjudged([1.0, 7.0]))
    llvm = [np.float32([1.0, 2.0]), np.float32([1.0, 7.0])]
    assert too_far(np.float32([1.0, 2.0]), np.float32([1.0, 7.0]), expected, llvm) is None


# --- with a target -------------------------------------------------------------------------------


def test_each_change_is_run_with_the_target(ir: str, tmp_path: Path) -> None:
    examiner = Examiner(make_settings(tmp_path, 120.0), declaration("example_c", ir))
    examiner.open()
    try:
        graph = sample()
        verdict = examiner.examine_uncached(graph, plan.again("equivalent"))
        assert verdict.outcome == PASS and "equivalent" in verdict.checks_made
        facts = verdict.evidence.target.facts
        run = [
            change for number, (change, _) in enumerate(verdict.evidence.equivalents)
            if any(facts(equivalent.fact(number)))
        ]
        # The region is cut by operators that the target leaves to TVM, and every other change is made once.
        assert sorted(run) == changes(graph, ir)
    finally:
        examiner.close()


def long_sum(path: Path) -> None:
    """Saves a model whose result no bound can judge."""
    sizes = {"x": 1 << 18, "y": 1 << 18, "z": 1}
    x, y, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [size]) for n, size in sizes.items())
    nodes = [helper.make_node("Sub", ["x", "y"], ["d"]), helper.make_node("ReduceSum", ["d"], ["z"])]
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "sum", [x, y], [z]), opset_imports=opset), str(path))


@pytest.mark.once
def test_a_model_that_no_bound_can_judge_is_judged_by_itself(pytester: pytest.Pytester, ir: str) -> None:
    long_sum(pytester.path / "sum.onnx")
    target = apply(FAULTS["long_sum_cut"], pytester.path)
    for name, outcome in ((f"{target / '__init__.py'}:target", "failed"), ("example_c", "skipped")):
        result = pytester.runpytest_subprocess(
            f"--byoc-target={name}", f"--byoc-python={PYTHON}", f"--byoc-ir={ir}", "--byoc-report=out",
            "--byoc-model=sum.onnx", "-p", "no:cacheprovider", timeout=300,
        )
        result.assert_outcomes(**{outcome: 1})
        failures = json.loads(pytester.path.joinpath("out", "report.json").read_text())["failures"]
        found = [("equivalent", "wrong-result")] if outcome == "failed" else []
        assert [(failure["check"], failure["outcome"]) for failure in failures] == found
