"""What a session tells the plugin while a test runs."""

from __future__ import annotations

from ..examination.outcome import Verdict
from ..record.target_record import Excused


class Observer:
    """Is told what happens in one target's session. This one takes no notice."""

    def examined(self, verdict: Verdict) -> None:
        """Called with each verdict."""

    def excused(self, excuse: Excused) -> None:
        """Called with each failure that is excused."""
