"""Tests the target's own patterns: each way of matching one, two matches in one graph, and near
misses."""

from __future__ import annotations

import pytest

from pytest_byoc.suite.cases import Suite


def test_pattern(byoc_suite: Suite, byoc_pattern: str) -> None:
    why_none = byoc_suite.check_pattern(byoc_pattern)
    if why_none:
        pytest.skip(why_none)
