"""Graphs given with --byoc-replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_byoc.corpus import read_graph
from pytest_byoc.session import TargetSession


def test_replay(byoc_target: TargetSession, byoc_replay: Path) -> None:
    verdict = byoc_target.check(read_graph(byoc_replay), byoc_replay.name, shrink=False, chosen=True)
    if verdict.outcome != "pass":
        pytest.skip(verdict.reason)
