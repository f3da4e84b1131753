"""Judges waivers by a session. The rules are strict both ways: an entry that waives nothing fails
it too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..config.plan import THOROUGH
from ..config.settings import Settings
from ..examination.outcome import FAILURES, PASS
from ..generation.structures import STRUCTURES
from ..record.target_record import TargetRecord
from .planned import AMONG_OTHERS, NotRun, Selection
from .problems import Gate, shown
from .waivers import Waiver, Waivers, nearest

#: Prefixes of case ids whose graphs depend on the set of operators; the graphs of structures do
#: too.
_RANDOM = tuple(f"{kind}[" for kind in (*AMONG_OTHERS.values(), THOROUGH))


@dataclass
class _Entry:
    """The judgement on an entry. Cases are pairs of target and id; fitting: all cases that the entry
    fits."""

    waiver: Waiver
    fitting: list[tuple[str, str]] = field(default_factory=list)
    failing: list[tuple[str, str]] = field(default_factory=list)
    passing: list[tuple[str, str]] = field(default_factory=list)
    #: Why the entry waives nothing; empty if it waives something, or was not judged.
    stale: str = ""
    unjudged: str = ""


def judge(
    gate: Gate,
    waivers: Waivers,
    settings: Settings,
    records: Sequence[TargetRecord],
    selections: Sequence[Selection],
) -> list[Waiver]:
    """Adds the errors of the entries to the gate. Returns the entries that the session needs
    instead."""
    sessions = [(record, selection.not_run()) for record, selection in zip(records, selections)]
    entries = [_judge(w, settings, sessions) for w in waivers.entries]
    needed = _needed(waivers, entries, records)
    for entry in entries:
        where = waivers.where(entry.waiver)
        if entry.waiver.expired(waivers.today):
            gate.fail(
                f"{where}: the waiver of {entry.waiver.what} expired after {entry.waiver.expires}: repair "
                "the failure, or give the waiver another date"
            )
        elif entry.stale and not settings.update_waivers:
            gate.fail(f"{where}: {entry.stale}; remove the entry (--byoc-update-waivers does it)")
        elif entry.passing and not settings.update_waivers:
            cases = [case for _, case in entry.passing]
            narrower = "narrow its pattern, since its other cases fail"
            what = narrower if entry.failing else "remove the entry"
            text = f"{where}: waived, but passes: {', '.join(shown(cases, 3))}; {what}"
            gate.fail(f"{text} (--byoc-update-waivers does it)")
    for reason in dict.fromkeys(e.unjudged for e in entries if e.unjudged):
        lines = ", ".join(str(e.waiver.line) for e in entries if e.unjudged == reason)
        gate.note(f"{waivers.path.name}: the entries in line {lines} were not judged, since {reason}")
    return needed


def _judge(
    waiver: Waiver, settings: Settings, sessions: Sequence[tuple[TargetRecord, NotRun]]
) -> _Entry:
    entry = _Entry(waiver)
    may_be_elsewhere = False
    known: set[str] = set()
    varies = False
    otherwise: set[str] = set()
    outcomes: dict[str, str] = {}
    concerned = [s for s in sessions if waiver.is_for(s[0].target, s[0].ir)]
    for record, not_run in concerned:
        may_be_elsewhere |= not_run.may_hold(waiver.cases)
        if waiver.message:
            entry.failing += _waived_by_message(waiver, record)
            continue
        known |= set(record.cases)
        for case, outcome in record.cases.items():
            if not waiver.matches(case, ""):
                continue
            key = (record.target, case)
            entry.fitting.append(key)
            outcomes[case] = outcome
            if waiver.check in record.failed_checks.get(case, ()):
                entry.failing.append(key)
            elif outcome in FAILURES:
                # A failure that is excused itself does not delay the judgement on this entry.
                checks = record.failed_checks[case]
                otherwise |= {check for check in checks if (case, check) not in record.excused}
            elif settings.narrowed and (case.startswith(_RANDOM) or case in STRUCTURES):
                varies = True
            elif outcome == PASS:
                entry.passing.append(key)
    if not concerned:
        entry.unjudged = "the session tests no such target or IR"
    elif entry.failing or entry.passing:
        pass
    elif waiver.message:
        # The failures depend on the graphs that are generated.
        if settings.narrowed:
            entry.unjudged = f"{' and '.join(settings.narrowed)} decide what is generated"
        elif may_be_elsewhere:
            entry.unjudged = "tests that it may be for were not run"
        else:
            entry.stale = (
                f"waives nothing: no failure of check {waiver.check} has the message {waiver.message!r}"
            )
    elif otherwise:
        entry.unjudged = f"the case fails check {' and '.join(sorted(otherwise))} instead"
    elif varies:
        entry.unjudged = f"{' and '.join(settings.narrowed)} decide what is generated there"
    elif entry.fitting and not may_be_elsewhere:
        case, outcome = next(iter(outcomes.items()))
        entry.stale = f"waives nothing of check {waiver.check}: {case} is {outcome}"
    elif may_be_elsewhere:
        entry.unjudged = "tests that it may be for were not run"
    else:
        entry.stale = f"the pattern {waiver.case} fits no case{nearest(waiver.case, sorted(known))}"
    return entry


def _waived_by_message(waiver: Waiver, record: TargetRecord) -> list[tuple[str, str]]:
    """Returns the cases with a waived failure that an entry for a message fits."""
    return [
        (record.target, e.case)
        for e in record.excused.values()
        if e.kind == "waived" and e.check == waiver.check and waiver.matches(e.case, e.normalised)
    ]


def _needed(
    waivers: Waivers, entries: Sequence[_Entry], records: Sequence[TargetRecord]
) -> list[Waiver]:
    """Returns the entries that the session needs: the ones that stay; for each entry that is too
    wide, one for each failing case; and one for each failure without an entry."""
    several = len(records) > 1
    needed: list[Waiver] = []
    for entry in entries:
        waiver = entry.waiver
        if waiver.expired(waivers.today) or not (entry.stale or entry.passing):
            needed.append(waiver)
            continue
        for i, (target, case) in enumerate(entry.failing):
            scope = target if several else waiver.target
            comments = waiver.comments() if i == 0 else ""
            needed.append(replace(waiver, case=case, target=scope, line=0, text=comments))
    for record in records:
        for e in record.excused.values():
            if e.kind == "waived" and not e.line:
                scope = record.target if several else ""
                needed.append(Waiver(e.check, e.case, e.reason, target=scope))
    unique = {w.place: w for w in reversed(needed)}
    return [w for w in needed if unique.get(w.place) is w]
