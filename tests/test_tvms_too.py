"""Tests that TVM is asked at once about a check that its own artifact has failed like the target's."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.faults import Fault, Patch, apply
from pytest_byoc.config import plan
from pytest_byoc.config.levels import LEVELS
from pytest_byoc.examination.outcome import PASS
from pytest_byoc.generation.systematic import cases

from .test_worker import examiner

_OFFSETS = Fault(
    "offsets", 0, "views are read from the beginning of their memory", (), None,
    (Patch("relay.py", "(char*)tensor->data + tensor->byte_offset;", "(char*)tensor->data;"),),
)


def test_a_check_that_tvm_fails_too_is_settled_at_the_first_look(tmp_path: Path, ir: str) -> None:
    if ir != "relay":
        pytest.skip("TVM's own artifacts fail no check in Relax")
    target = apply(_OFFSETS, tmp_path)
    found = examiner(tmp_path, f"{target / '__init__.py'}:target", ir, 120.0)
    try:
        found.open()
        effort = plan.effort(LEVELS["smoke"])
        graphs = [case.graph for case in cases(["nn.relu"], ir) if case.graph.elements > 4]
        offloaded = [g for g, p in zip(graphs, found.partitions.survey(graphs)) if p and p.regions]
        # The graph executor copies its inputs, so it meets no views.
        first, second = [g for g in offloaded if found.workers.executor_for(g) == "vm"][:2]
        seen = found.first_look(first, effort)
        assert seen.failed and {f.check for f in seen.findings} == {"views"}
        assert found.look_again(seen, effort).outcome == PASS
        settled = found.first_look(second, effort)
        assert settled.outcome == PASS
        assert any(text.startswith("views: where TVM's own LLVM build fails") for text in settled.not_checked)
    finally:
        found.close()
