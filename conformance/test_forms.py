"""Every operator the target takes, several times on one value: what tells them apart is an attribute."""

from __future__ import annotations

from pytest_byoc.deselection import deselect, expect_pass
from pytest_byoc.session import TargetSession


def test_forms(byoc_target: TargetSession, byoc_operator: str) -> None:
    if byoc_operator not in byoc_target.suite.taken.claimed():
        deselect("not-offloaded: the target offloads it in none of its systematic cases")
    verdict = byoc_target.suite.check_forms(byoc_operator)
    if verdict is None:
        deselect("it has one form")
    expect_pass(verdict)
