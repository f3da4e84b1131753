"""The target's own patterns: each in each of its ways, twice in one graph, and graphs one step off."""

from __future__ import annotations

import pytest

from pytest_byoc.suite.cases import Suite


def test_pattern(byoc_suite: Suite, byoc_pattern: str) -> None:
    why_none = byoc_suite.check_pattern(byoc_pattern)
    if why_none:
        pytest.skip(why_none)
