"""Small graphs of named shapes, made of operators the target takes and operators it does not."""

from __future__ import annotations

import pytest

from pytest_byoc.generation.structures import Unavailable
from pytest_byoc.session import TargetSession


def test_structure(byoc_target: TargetSession, structure: str) -> None:
    try:
        verdict = byoc_target.suite.check_structure(structure)
    except Unavailable as e:
        pytest.skip(f"not-offloaded: {e}")
    if verdict.outcome != "pass":
        pytest.skip(verdict.reason)
