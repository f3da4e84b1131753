"""Every operator alone, each class of each of its parameters."""

from __future__ import annotations

import pytest

from pytest_byoc.generation.systematic import Case
from pytest_byoc.session import TargetSession


def test_operator(byoc_target: TargetSession, byoc_case: Case) -> None:
    verdict = byoc_target.suite.check_case(byoc_case)
    if verdict.outcome != "pass":
        pytest.skip(verdict.reason)
