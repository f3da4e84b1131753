"""Small graphs of named shapes, made of operators the target takes and operators it does not."""

from __future__ import annotations

from pytest_byoc.deselection import deselect, expect_pass
from pytest_byoc.generation.structures import Unavailable
from pytest_byoc.session import TargetSession


def test_structure(byoc_target: TargetSession, structure: str) -> None:
    try:
        verdict = byoc_target.suite.check_structure(structure)
    except Unavailable as e:
        deselect(f"not-offloaded: {e}")
    expect_pass(verdict)
