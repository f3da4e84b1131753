"""Compares two reports of the same target, in Markdown: what got worse, what got better."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..core.irs import IR_TITLES
from ..examination.outcome import FAILURES, NOT_OFFLOADED, OUTCOMES, PASS
from ..gate.problems import shown
from ..record.measured import ratios
from ..record.target_record import is_offloaded
from .html import clean
from .markdown import escaped, table
from .words import counted, title

#: Largest number of items of a list.
_LISTED = 100

Record = Mapping[str, Any]


@dataclass
class Changes:
    """The differences of one target's records. worse, better: lines by heading."""

    name: str
    worse: dict[str, list[str]] = field(default_factory=dict)
    better: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    counts: list[tuple[str, str, str]] = field(default_factory=list)


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Changes]:
    """Returns the differences of each target that the old report has. Raises ValueError if the
    reports have no target in common."""
    before, after = _targets(old), _targets(new)
    if not before.keys() & after.keys():
        raise ValueError(f"the old report is of {_named(before)}, the new one of {_named(after)}")
    found = []
    for key, record in before.items():
        changes = Changes(_named([key]))
        if key in after:
            _compare(changes, record, after[key])
            changes.notes += _settings(old["settings"], new["settings"])
        else:
            changes.worse["Targets that are gone"] = [_named([key])]
        found.append(changes)
    return found


def markdown(old: str, new: str, found: Sequence[Changes]) -> str:
    """Returns the page. old, new: names of the reports."""
    lines = [f"# {escaped(old)} → {escaped(new)}"]
    for changes in found:
        lines += ["", f"## {escaped(changes.name)}", "", *_summary(changes)]
        if changes.counts:
            lines += ["", *table(("graphs", "old:", "new:"), changes.counts)]
        for heading, items in (*changes.worse.items(), *changes.better.items()):
            lines += ["", f"### {heading} ({len(items)})", ""]
            lines += [f"- {escaped(item)}" for item in shown(items, _LISTED)]
        if changes.notes:
            lines += ["", "### Remarks", "", *(f"- {escaped(note)}" for note in changes.notes)]
    return "\n".join([*lines, ""])


def is_worse(found: Iterable[Changes]) -> bool:
    return any(changes.worse for changes in found)


def _summary(changes: Changes) -> Iterator[str]:
    worse, better = (sum(map(len, part.values())) for part in (changes.worse, changes.better))
    yield f"**{counted(worse, 'change')} for the worse, {better} for the better.**"


def _targets(report: Mapping[str, Any]) -> dict[tuple[str, str], Record]:
    return {(t["target"], t["ir"]): t for t in map(clean, report.get("targets", [report]))}


def _named(keys: Iterable[tuple[str, str]]) -> str:
    return " and ".join(f"{target}, {IR_TITLES.get(ir, ir or 'unusable')}" for target, ir in keys)


def _compare(changes: Changes, old: Record, new: Record) -> None:
    def add(part: dict[str, list[str]], heading: str, items: Iterable[str]) -> None:
        if listed := list(items):
            part[heading] = listed

    a, b = old["cases"], new["cases"]
    excused = {(e["case"], e["check"]) for e in new["excused"]}
    add(changes.worse, "Cases that got worse", _worse(old, new, excused))
    add(changes.better, "Cases that pass now", (
        f"{case}: was {was}" for case, was in a.items() if was != PASS and b.get(case) == PASS
        and was in (*FAILURES, NOT_OFFLOADED)
    ))
    ours, theirs = ({f["id"]: f for f in record["failures"]} for record in (old, new))
    add(changes.worse, "New failures", (
        _failure(f) for i, f in theirs.items() if i not in ours and _shows_more(f, old["failed_checks"])
    ))
    add(changes.better, "Failures that are gone", (_failure(f) for i, f in ours.items() if i not in theirs))
    offloaded = [{_key(c) for c in r["cells"] if is_offloaded(c)} for r in (old, new)]
    known = [{_key(c) for c in r["cells"]} for r in (old, new)]
    lost, gained = (sorted((offloaded[i] - offloaded[1 - i]) & known[1 - i]) for i in (0, 1))
    add(changes.worse, "Cells that are no longer offloaded", lost)
    add(changes.better, "Cells that are offloaded now", gained)
    matched = [{name for name, reason in r["patterns"].items() if not reason} for r in (old, new)]
    never = (matched[0] & new["patterns"].keys()) - matched[1]
    now = (matched[1] & old["patterns"].keys()) - matched[0]
    add(changes.worse, "Patterns that are never matched now", (
        f"{name}: {new['patterns'][name]}" for name in sorted(never)
    ))
    add(changes.better, "Patterns that are matched now", sorted(now))
    changes.counts = [
        (outcome, str(old["outcomes"][outcome]), str(new["outcomes"][outcome])) for outcome in OUTCOMES
        if old["outcomes"][outcome] or new["outcomes"][outcome]
    ]
    for cases, text in ((a.keys() - b.keys(), "the new report"), (b.keys() - a.keys(), "the old report")):
        if cases:
            changes.notes.append(f"{counted(len(cases), 'case')} not in {text}, such as {min(cases)}")
    judged = (PASS, NOT_OFFLOADED, *FAILURES)
    vague = [case for case, was in a.items() if was == PASS and b.get(case, PASS) not in judged]
    if vague:
        cases = counted(len(vague), "case")
        changes.notes.append(f"{cases} passed and cannot be judged now, such as {vague[0]}")
    changes.notes += _speed(old, new)
    for name in sorted(old["versions"].keys() | new["versions"].keys()):
        before, after = (r["versions"].get(name, "unknown") for r in (old, new))
        if before != after:
            changes.notes.append(f"{name} {before}, now {after}")


def _speed(old: Record, new: Record) -> Iterator[str]:
    """Yields remarks on graphs whose time, relative to LLVM's, has changed by more than it varies."""
    then, now = (ratios(record.get("speed", ())) for record in (old, new))
    common = sorted(then.keys() & now.keys())
    slower = [case for case in common if now[case].low > then[case].high]
    faster = [case for case in common if now[case].high < then[case].low]
    for cases, word in ((slower, "slower"), (faster, "faster")):
        if cases:
            most = max(cases, key=lambda case: abs(math.log(now[case].median / then[case].median)))
            yield (
                f"{counted(len(cases), 'graph')} {word} relative to LLVM, most of all {most}: "
                f"{then[most]} times LLVM's time, now {now[most]}"
            )


def _worse(old: Record, new: Record, excused: set[tuple[str, str]]) -> Iterator[str]:
    for case, outcome in new["cases"].items():
        was = old["cases"].get(case)
        if was == PASS and outcome == NOT_OFFLOADED:
            yield f"{case}: passed, now {outcome}"
        before = old["failed_checks"].get(case, ())
        for check in new["failed_checks"].get(case, ()):
            if check not in before and (case, check) not in excused:
                words = {PASS: "passed", None: "not in the old report"}.get(was, f"was {was}")
                yield f"{case}: {words}, now {outcome} (check {check})"


def _shows_more(failure: Mapping[str, Any], failed: Mapping[str, Sequence[str]]) -> bool:
    """Returns whether a failure shows in a case that did not fail its check before."""
    cases = failure.get("cases") or [failure["case"]]
    return any(failure["check"] not in failed.get(case, ()) for case in cases)


def _failure(failure: Mapping[str, Any]) -> str:
    message = (failure["message"].splitlines() or [""])[0]
    return f"{failure['id']}, {title(failure['operators'])}: check {failure['check']}: {message}"


def _key(cell: Mapping[str, Any]) -> str:
    return f"{cell['operator']} {cell['dtype']}"


def _settings(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name), new.get(name)
        if was != now:
            short = len(f"{was}{now}") < _LISTED
            yield f"setting {name}: {was}, now {now}" if short else f"setting {name} differs"
