"""Tests the structures a second time, each alone in its module and with all checks."""

from __future__ import annotations

import pytest

from pytest_byoc.generation.structures import Unavailable
from pytest_byoc.plugin.deselection import deselect, expect_pass
from pytest_byoc.suite.cases import Suite


def test_thoroughly(byoc_suite: Suite, structure: str) -> None:
    try:
        verdict = byoc_suite.check_thoroughly(structure)
    except Unavailable as e:
        deselect(f"not-offloaded: {e}")
    if verdict is None:
        pytest.skip(f"not examined: test_structure[{structure}] reports its failure")
    expect_pass(verdict)
