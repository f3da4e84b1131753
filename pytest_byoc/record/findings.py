"""Selects and words the findings of one verdict: the first in full, its repetitions in a few
words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.finding import Finding
from ..evidence import difference

#: Number of further findings that a text lists.
MOST = 3
#: Number of other runs that a text names.
_RUNS = 6


def where_wrong(finding: Finding) -> str:
    """Describes the wrong elements of an output, as in "every row but the first". Returns "" if
    there is no simple description, or the finding is about something else."""
    packed = finding.details.get("mask")
    if not packed:
        return ""
    return difference.describe(difference.unpack(packed), finding.details.get("layout", ""))


def picture(finding: Finding) -> dict[str, Any] | None:
    """Returns `difference.picture` of the wrong elements; None if they are not known, or all are
    wrong."""
    packed = finding.details.get("mask")
    if not packed or finding.details["outside"] == finding.details["elements"]:
        return None
    return difference.picture(difference.unpack(packed))


def _subject(finding: Finding) -> tuple[str, ...]:
    """Returns the subject of a finding on numbers: findings with the same subject differ in the run
    alone."""
    family = finding.stage if finding.stage == "compare" else finding.check
    return family, str(finding.details["output"])


def likewise(findings: Sequence[Finding]) -> list[str]:
    """Returns the names of the other runs that show the first finding, each once."""
    first = findings[0]
    if "how" not in first.details:
        return []
    runs = [f.details["how"] for f in findings if "how" in f.details and _subject(f) == _subject(first)]
    return [run for run in dict.fromkeys(runs) if run != first.details["how"]]


def others(findings: Sequence[Finding]) -> list[str]:
    """Returns the messages of up to MOST further findings, without repetitions of earlier ones."""
    messages, subjects = [], set()
    for position, finding in enumerate(findings):
        if "how" in finding.details:
            if _subject(finding) in subjects:
                continue
            subjects.add(_subject(finding))
        elif finding.message in {f.message for f in findings[:position]}:
            continue
        if position:
            messages.append(with_runs(finding.message, likewise([finding, *findings[position + 1 :]])))
    return messages[:MOST]


def with_runs(message: str, runs: Sequence[str]) -> str:
    """Returns a message with the names of the other runs that show the same error."""
    if not runs:
        return message
    more = f"; and {len(runs) - _RUNS} more" if len(runs) > _RUNS else ""
    return f"{message}\nlikewise: {'; '.join(runs[:_RUNS])}{more}"


def message_lines(findings: Sequence[Finding]) -> list[str]:
    """Returns the text of all findings as lines: the first message, the wrong elements, further
    findings."""
    first = findings[0]
    lines = [first.message]
    words = where_wrong(first)
    if words:
        lines.append(f"wrong: {words}")
    lines += [f"  {line}" for line in first.details.get("changes", ())]
    lines += with_runs("", likewise(findings)).splitlines()[1:]
    for message in others(findings):
        head, *rest = message.splitlines()
        lines += [f"also: {head}", *(f"  {line}" for line in rest)]
    return lines
