"""Tests every offloaded operator, followed by itself and a selection of other offloaded
operators."""

from __future__ import annotations

from pytest_byoc.plugin.deselection import deselect, expect_pass
from pytest_byoc.suite.cases import Suite


def test_followed(byoc_suite: Suite, byoc_operator: str) -> None:
    if byoc_operator not in byoc_suite.offloaded.operators():
        deselect("not-offloaded: the target offloads the operator in none of its systematic cases")
    verdict = byoc_suite.check_followed(byoc_operator)
    if verdict is None:
        deselect("no operator that the target offloads fits behind this one")
    expect_pass(verdict)
