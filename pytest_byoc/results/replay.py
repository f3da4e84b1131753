"""Lists the failures of all shards as one session would have listed them.

A session recognises most failing graphs as failures that it knows, and counts them. A shard knows its
own failures only. So the sightings of all shards are gone through once more, in the order of the
whole session's tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..config.errors import SettingsError
from ..gate.excuses import Excuses
from ..record.likely_causes import may_hide_another, recognised_by
from ..record.listed import Excused, Failure
from ..record.sighting import Sighting
from ..record.target_record import TargetRecord


@dataclass
class Replay:
    """The sightings of one target. record: of all shards, joined. failures: those of each shard, by
    id. excuses: the waivers and the baseline that `merge` was given.

    failing: ids of the tests with a failure that nothing excuses."""

    record: TargetRecord
    failures: Sequence[Mapping[str, Failure]]
    excuses: Excuses

    def __post_init__(self) -> None:
        self.failing: set[str] = set()
        #: The failure that stands for a shard's own one.
        self._instead: dict[tuple[int, str], Failure] = {}

    def run(self, sightings: Sequence[Sequence[Sighting]]) -> None:
        """Sets the record's failures, excused failures and failed cells. sightings: of each shard."""
        self.record.failures, self.record.excused = {}, {}
        numbered = [(shard, s) for shard, found in enumerate(sightings) for s in found]
        for _, sighting in numbered:
            self._uncount(sighting)
        for shard, sighting in sorted(numbered, key=lambda one: (one[1].position, one[0])):
            if not self._excused(sighting):
                self.failing.add(sighting.test)
                self._list(shard, sighting)

    def _uncount(self, sighting: Sighting) -> None:
        for cell in sighting.counted:
            counts, by_check = self.record.cells.get(cell), self.record.failed_by.get(cell)
            if counts is None or by_check is None or by_check[sighting.check] < 1:
                raise SettingsError(
                    f"the report of {sighting.case} is damaged: its cells do not fit; run that shard again"
                )
            counts["failed"] -= 1
            by_check[sighting.check] -= 1
            if not by_check[sighting.check]:
                del by_check[sighting.check]

    def _excused(self, s: Sighting) -> bool:
        """Lists a sighting that a waiver or the baseline excuses. Raises SettingsError for one that
        was excused in its shard, and now nothing excuses it: its graph was not shrunk."""
        found = self._excuse(s, s.case) or (self._excuse(s, s.origin) if s.origin else None)
        if found is None:
            if s.excused:
                raise SettingsError(
                    f"{s.case} (check {s.check}) was excused when its shard was run, and nothing that "
                    "merge was given excuses it: give merge the same --byoc-waivers and --byoc-baseline, or "
                    "run the shards again"
                )
            return False
        self.record.excuse_in(replace(found, case=s.case), s.alone)
        return True

    def _excuse(self, s: Sighting, case: str) -> Excused | None:
        return self.excuses.of(self.record, case, s.check, s.outcome, s.message, s.normalised)

    def _list(self, shard: int, s: Sighting) -> None:
        own = self.failures[shard].get(s.failure)
        if own is None:
            raise SettingsError(f"the report of {s.case} is damaged: it lists no failure {s.failure}")
        known, cells = self._known(s)
        if known is None:
            known = self.record.failures.get(s.failure) or self._instead.get((shard, s.failure))
        if known is None:
            known = replace(own, count=0, cases=[], seen_operators=[], seen_dtypes=[])
            self.record.failures[known.id] = known
        self._instead.setdefault((shard, s.failure), known)
        self.record.show(known, s.case, cells, s.operators if s.nodes == 1 else ())

    def _known(self, s: Sighting) -> tuple[Failure | None, Sequence[tuple[str, str]]]:
        """Returns the listed failure that a sighting repeats, and the cells that count as failed."""
        listed = list(self.record.failures.values())
        known = recognised_by(listed, s.before) if s.before else None
        # A session would examine such a graph without the known failure's traits. The shrunk graph
        # of the shard stands for that one.
        hiding = bool(known and s.before and s.after and may_hide_another(known, s.before))
        if known is not None and not hiding:
            return known, s.unshrunk
        return recognised_by(listed, s.after) if s.after else None, s.counted
