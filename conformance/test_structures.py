"""Tests structures: small named graphs of operators that the target offloads and of others."""

from __future__ import annotations

from pytest_byoc.generation.structures import Unavailable
from pytest_byoc.plugin.deselection import deselect, expect_pass
from pytest_byoc.suite.cases import Suite


def test_structure(byoc_suite: Suite, structure: str) -> None:
    try:
        verdict = byoc_suite.check_structure(structure)
    except Unavailable as e:
        deselect(f"not-offloaded: {e}")
    expect_pass(verdict)
