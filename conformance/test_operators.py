"""Every operator alone, each class of each of its parameters."""

from __future__ import annotations

from pytest_byoc.deselection import expect_pass
from pytest_byoc.generation.systematic import Case
from pytest_byoc.session import TargetSession


def test_operator(byoc_target: TargetSession, byoc_case: Case) -> None:
    verdict = byoc_target.suite.check_case(byoc_case)
    expect_pass(verdict)
