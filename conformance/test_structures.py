"""Small graphs of named shapes, made of operators the target takes and operators it does not."""

from __future__ import annotations

import pytest

from pytest_byoc.generation.builder import Builder
from pytest_byoc.generation.structures import STRUCTURES, Unavailable
from pytest_byoc.session import TargetSession


@pytest.mark.parametrize("structure", STRUCTURES)
def test_structure(byoc_target: TargetSession, structure: str) -> None:
    try:
        graph = STRUCTURES[structure](Builder(seed=1), byoc_target.vocabulary())
    except Unavailable as e:
        pytest.skip(f"not-offloaded: {e}")
    verdict = byoc_target.check(graph, structure, chosen=True)
    if verdict.outcome != "pass":
        pytest.skip(verdict.reason)
