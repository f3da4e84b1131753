"""A target that can't be used, where others can: it fails here, and the others are tested."""

from __future__ import annotations

import pytest


def test_target(byoc_unusable: str) -> None:
    pytest.fail(byoc_unusable, pytrace=False)
