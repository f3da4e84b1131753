"""Finds the excuse of a failure: a waiver or the baseline. An excused failure is an expected
one."""

from __future__ import annotations

from dataclasses import dataclass

from ..examination.outcome import Verdict
from ..examination.signature import message_key
from ..record.listed import Excused
from ..record.sighting import short_message
from ..record.target_record import TargetRecord
from .baseline import Baseline
from .waivers import Waivers


@dataclass(frozen=True)
class Excuses:
    """The excuses of a session. update: true if every other failure is waived too, by an entry that
    --byoc-update-waivers has yet to write."""

    waivers: Waivers | None
    baseline: Baseline | None
    update: bool

    def find(self, record: TargetRecord, verdict: Verdict, case: str) -> Excused | None:
        """Returns the excuse of a failing verdict: a waiver, or else the baseline, or else the
        update. None if there is none."""
        finding = verdict.findings[0]
        key = message_key(finding, verdict.symbols)
        return self.of(record, case, finding.check, verdict.outcome, short_message(verdict), key)

    def of(
        self, record: TargetRecord, case: str, check: str, outcome: str, message: str, key: str
    ) -> Excused | None:
        """Returns the same for a failure that was recorded. key: the message without numbers and
        names."""
        found = (case, check, outcome, message)
        if self.waivers is not None:
            waiver = self.waivers.find(record.target, record.ir, case, check, key)
            if waiver is not None:
                until = waiver.expires.isoformat() if waiver.expires else ""
                return Excused(
                    "waived", *found, waiver.reason, waiver.issue, until, waiver.line, normalised=key
                )
        if self.baseline is not None and self.baseline.of(record.target, record.ir).knows(case, check):
            return Excused("known", *found)
        if not self.update or self.waivers is None:
            return None
        # Only people extend an expired entry, so its failures get no new one.
        if self.waivers.expired(record.target, record.ir, case, check, key):
            return None
        return Excused("waived", *found, f"not explained yet: {outcome}: {message}")
