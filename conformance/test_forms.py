"""Every operator the target takes, several times on one value: what tells them apart is an attribute."""

from __future__ import annotations

import pytest

from pytest_byoc.session import TargetSession


def test_forms(byoc_target: TargetSession, byoc_operator: str) -> None:
    if byoc_operator not in byoc_target.suite.taken.claimed():
        pytest.skip("not-offloaded: the target takes it in none of its systematic cases")
    verdict = byoc_target.suite.check_forms(byoc_operator)
    if verdict is None:
        pytest.skip("it has one form")
    if verdict.outcome != "pass":
        pytest.skip(verdict.reason)
