"""The interface by which a session notifies the plugin of verdicts while a test runs."""

from __future__ import annotations

from ..examination.outcome import Verdict
from ..record.listed import Excused


class Observer:
    """An observer of one target's session. This base class ignores every event."""

    def examined(self, verdict: Verdict) -> None:
        """Is called with each verdict."""

    def excused(self, excuse: Excused) -> None:
        """Is called with each failure that a waiver or the baseline excuses."""
