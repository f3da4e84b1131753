"""Words that several reports share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ..generation.shrink_steps import EXAMINATIONS, SECONDS

if TYPE_CHECKING:
    from ..record.likely_causes import Cause

def counted(number: int, what: str) -> str:
    """Returns a number with its noun: 1 graph, 2 graphs."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def besides_patterns(not_checked: Sequence[str], unmatched: Collection[str]) -> list[str]:
    """Returns what was not checked without the unmatched patterns, which a report lists by
    themselves."""
    beginnings = tuple(f"pattern {name} is " for name in unmatched)
    return [text for text in not_checked if not text.startswith(beginnings)]


def needed(each: bool | None, operators: int) -> str:
    """Returns a remark on the size of a shrunk graph, to follow the number of its operators. each:
    whether each operator is needed (`Failure.each_needed`)."""
    if each is None or (each and operators < 2):
        return ""
    limit = f"{EXAMINATIONS} graphs or {SECONDS:g} s"
    return "; each is needed" if each else f"; not all smaller ones were tried, within the limit of {limit}"


#: Number of operators that a title names.
_NAMED = 4


def title(operators: Sequence[str]) -> str:
    """Returns a title for a graph: the names of its operators."""
    more = len(operators) - _NAMED
    return " + ".join([*operators[:_NAMED], *([f"{more} more"] if more > 0 else [])])


def cause_title(cause: Cause) -> str:
    """Returns a title for a cause: the operators of its smallest graph, and the number of
    others."""
    others = set(cause.operators) - set(cause.representative.operators)
    return title(cause.representative.operators) + (
        f" and {counted(len(others), 'other operator')}" if others else ""
    )


def cause_extent(cause: Cause) -> str:
    """Returns the numbers of tests, operators and graphs that show a cause, and its dtypes."""
    parts = [counted(cause.tests, "test")]
    if len(cause.operators) > 1:
        parts.append(counted(len(cause.operators), "operator"))
    if len(cause.dtypes) > 1:
        parts.append(" and ".join(cause.dtypes))
    if len(cause.failures) > 1:
        parts.append(f"{len(cause.failures)} graphs saved")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Returns a duration as text: 34 s, 2 min 5 s, 1 h 3 min."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
