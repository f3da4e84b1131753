"""Hooks for other plugins, and for a conftest.py: what pytest-byoc calls, in the process that examines."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..examination.outcome import Verdict
    from ..suite.session import TargetSession


def pytest_byoc_session(session: TargetSession) -> None:
    """A target's session is there; its workers are about to be started."""


def pytest_byoc_verdict(session: TargetSession, verdict: Verdict) -> None:
    """A graph has been examined, or a module of several graphs that fails, in the test `session.test`."""
