"""Measures every offloaded operator and every pattern beside LLVM, with tensors as large as those of
models."""

from __future__ import annotations

from pytest_byoc.plugin.deselection import deselect, expect_pass
from pytest_byoc.suite.cases import Suite


def test_speed(byoc_suite: Suite, byoc_operator: str) -> None:
    verdict = byoc_suite.measure_operator(byoc_operator)
    if verdict is None:
        deselect("not-offloaded: the target offloads the operator in none of its systematic cases")
    expect_pass(verdict)


def test_speed_of_pattern(byoc_suite: Suite, byoc_pattern: str) -> None:
    verdict = byoc_suite.measure_pattern(byoc_pattern)
    if verdict is None:
        deselect("the pattern was never matched, or matches one operator, which is measured as such")
    expect_pass(verdict)
