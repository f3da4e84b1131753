"""Every operator the target takes, and behind it others that it takes: each two of them, or some for each."""

from __future__ import annotations

import pytest

from pytest_byoc.session import TargetSession


def test_followed(byoc_target: TargetSession, byoc_operator: str) -> None:
    if byoc_operator not in byoc_target.suite.taken.claimed():
        pytest.skip("not-offloaded: the target takes it in none of its systematic cases")
    verdict = byoc_target.suite.check_followed(byoc_operator)
    if verdict is None:
        pytest.skip("no operator that the target takes can stand behind it")
    if verdict.outcome != "pass":
        pytest.skip(verdict.reason)
