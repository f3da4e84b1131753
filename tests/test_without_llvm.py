"""Tests of cases that a target may offload but TVM's own LLVM build cannot judge."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fixtures.faults import FAULTS, apply
from pytest_byoc.config.effort import EVERY, Effort
from pytest_byoc.core.finding import WRONG_RESULT
from pytest_byoc.core.graph import Graph
from pytest_byoc.examination.examiner import Examiner
from pytest_byoc.examination.outcome import PASS, REFERENCE_WRONG, Verdict
from pytest_byoc.examination.partitions import Partitions
from pytest_byoc.generation import data, systematic, without_llvm
from pytest_byoc.operators import OPERATORS
from pytest_byoc.oracle import evaluation

from .conftest import declaration, make_settings

OHWI = "nn.conv2d[float32-nhwc-ohwi-without_llvm]"


def ohwi() -> Graph:
    (graphs,) = [c.graph for c in without_llvm.cases(["nn.conv2d"], "relay") if c.id == OHWI]
    return graphs


@pytest.mark.parametrize("ir", ["relay", "relax"])
def test_exactly_these_cases_cannot_be_built_by_llvm(ir: str) -> None:
    selected = without_llvm.cases(list(OPERATORS), ir)
    assert not [c.id for c in selected if not c.without_llvm or not without_llvm.llvm_fails(c.graph, ir)]
    assert not [c.id for c in systematic.cases(list(OPERATORS), ir) if without_llvm.llvm_fails(c.graph, ir)]
    assert max(Counter(c.id for c in selected).values()) == 1
    smoke = {c.operator for c in selected if c.smoke}
    assert smoke == {c.operator for c in selected} >= {n for n in OPERATORS if getattr(OPERATORS[n], ir) and
                                                 getattr(OPERATORS[n], ir).unbuilt}


def test_layouts_are_combined_with_every_class_of_other_parameters() -> None:
    layouts = Counter(
        tuple(c.graph.nodes[0].attrs[key] for key in ("data_layout", "kernel_layout"))
        for c in without_llvm.cases(["nn.conv2d"], "relay")
        if c.graph.inputs[0].type.dtype == "float32"
    )
    assert set(layouts) == {
        ("NCHW", "OHWI"), ("NCHW", "HWIO"), ("NHWC", "OHWI"), ("NHWC", "OIHW"), ("NHWC", "HWOI"),
    }
    assert min(layouts.values()) > 10


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("ir", ["relay", "relax"])
def test_the_oracle_judges_cases_that_llvm_cannot_build(ir: str) -> None:
    """In all but a few cases at least half of the elements are unambiguous."""
    vague = []
    for c in without_llvm.cases(list(OPERATORS), ir):
        results = evaluation.evaluate(c.graph, {**data.constants(c.graph), **data.inputs(c.graph, 0)})
        assert [b.shape for b in results] == [c.graph.type_of(o).shape for o in c.graph.outputs]
        vague += [c.id for b in results if b.ambiguous.mean() > 0.5]
    assert len(vague) < 5, vague


@pytest.mark.parametrize(
    ("alone", "by_llvm", "outcome", "expected"),
    [
        (PASS, REFERENCE_WRONG, PASS, [False]),
        (WRONG_RESULT, WRONG_RESULT, WRONG_RESULT, [False, True]),
        # LLVM is wrong in the same way.
        (WRONG_RESULT, REFERENCE_WRONG, REFERENCE_WRONG, [False, True]),
    ],
)
def test_only_failures_are_compared_to_llvm(
    tmp_path: Path, alone: str, by_llvm: str, outcome: str, expected: list[bool]
) -> None:
    seen: list[bool] = []

    class Canned(Examiner):
        def _verdict(self, graph: Graph, effort: Effort) -> Verdict:
            assert effort.executors == EVERY
            seen.append(effort.with_llvm)
            return Verdict(graph, by_llvm if effort.with_llvm else alone)

    examiner = Canned(make_settings(tmp_path), declaration("example_c", "relay"))
    examiner.workers.ir, examiner.partitions = "relay", Partitions(None)  # type: ignore[arg-type]
    examiner.workers.executors = ["graph", "vm"]
    try:
        assert examiner.examine(ohwi()).outcome == outcome
        assert seen == expected
    finally:
        examiner.close()


def test_a_layout_that_llvm_cannot_build_is_judged(tmp_path: Path, ir: str) -> None:
    fault = apply(FAULTS["ohwi_axes_exchanged"], tmp_path)
    for target, outcome in (("example_c", PASS), (f"{fault / '__init__.py'}:target", WRONG_RESULT)):
        examiner = Examiner(make_settings(tmp_path), declaration(target, ir))
        try:
            examiner.open()
            verdict = examiner.examine(ohwi())
        finally:
            examiner.close()
        assert verdict.outcome == outcome
        if outcome == WRONG_RESULT:
            assert [f.check for f in verdict.findings][:1] == ["numerics"]
            # In Relax TVM builds it.
            assert any("LLVM build raises" in note for note in verdict.notes) == (ir == "relay")
