"""Tests every offloaded operator several times on one value, each time with another attribute."""

from __future__ import annotations

from pytest_byoc.plugin.deselection import deselect, expect_pass
from pytest_byoc.suite.cases import Suite


def test_forms(byoc_suite: Suite, byoc_operator: str) -> None:
    if byoc_operator not in byoc_suite.offloaded.operators():
        deselect("not-offloaded: the target offloads the operator in none of its systematic cases")
    verdict = byoc_suite.check_forms(byoc_operator)
    if verdict is None:
        deselect("the operator has only one form")
    expect_pass(verdict)
