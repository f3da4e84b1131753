"""Tests every operator alone, with each class of each of its parameters."""

from __future__ import annotations

from pytest_byoc.generation.systematic import Case
from pytest_byoc.plugin.deselection import expect_pass
from pytest_byoc.suite.cases import Suite


def test_operator(byoc_suite: Suite, byoc_case: Case) -> None:
    verdict = byoc_suite.check_case(byoc_case)
    expect_pass(verdict)
