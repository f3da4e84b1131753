"""Hooks that pytest-byoc calls, for other plugins and a conftest.py, in the process that examines
graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..examination.outcome import Verdict
    from ..suite.session import TargetSession


def pytest_byoc_session(session: TargetSession) -> None:
    """Is called when a target's session exists, before its workers start."""


def pytest_byoc_verdict(session: TargetSession, verdict: Verdict) -> None:
    """Is called after each examination of a graph in the test `session.test`, and for a failing
    module of several graphs."""
