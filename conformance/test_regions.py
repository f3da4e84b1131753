"""Tests every offloaded operator as a part of a region of several operators."""

from __future__ import annotations

from pytest_byoc.plugin.deselection import deselect, expect_pass
from pytest_byoc.suite.cases import Suite


def test_region(byoc_suite: Suite, byoc_operator: str) -> None:
    if byoc_operator not in byoc_suite.offloaded.operators():
        deselect("not-offloaded: the target offloads the operator in none of its systematic cases")
    verdict = byoc_suite.check_region(byoc_operator)
    if verdict is None:
        deselect("the target offloads the operator in no region of several operators")
    expect_pass(verdict)
