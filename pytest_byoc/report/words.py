"""Pieces of text that several reports share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..generation.reduce import EXAMINATIONS, SECONDS

if TYPE_CHECKING:
    from ..likely_causes import Cause

IR_TITLES = {"relay": "Relay", "relax": "Relax"}
#: A frame of our worker as faulthandler prints it.
_OURS = re.compile(r'  File ".*/pytest_byoc/(?!examples/)[^"]*", line \d+ in ')
#: One of the interpreter itself, or of the start of the process, as TVM prints it, innermost first.
_INTERPRETERS = re.compile(
    r'  File "(?:\./)?(?:Python|Modules|Objects|Include)/[^"]*", line \d+, in |'
    r'  File "[^"]*", line 0, in (?:_start|__libc_start_main\S*|0x[0-9a-f]+)$'
)


def printed_lines(details: Mapping[str, object]) -> list[str]:
    """The end of what the process printed, for a failure's text. Of a stack that faulthandler or TVM has
    printed our own frames, and the interpreter's, tell nothing."""
    printed = [
        line
        for line in str(details.get("printed") or "").strip("\n").splitlines()
        if not line.startswith("Extension modules:")
        and not _OURS.match(line)
        and not _INTERPRETERS.match(line)
    ]
    while printed and not printed[-1].strip():
        printed.pop()
    if not printed:
        return []
    return ["", "the process printed (its last lines):", *("  | " + line for line in printed[-15:])]


def vendor_frame(frames: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The innermost frame of an exception that is neither ours, nor TVM's, nor the import system's."""
    theirs = [f for f in frames if not (f["ours"] or f["tvm"] or "importlib" in f["file"])]
    return theirs[-1] if theirs else None


def counted(number: int, what: str) -> str:
    """1 graph, 2 graphs."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def needed(each: bool | None, operators: int) -> str:
    """What shrinking says of a graph of so many operators, to be put behind their number."""
    if each is None or (each and operators < 2):
        return ""
    limit = f"{EXAMINATIONS} graphs or {SECONDS:g} s"
    return "; each is needed" if each else f"; not all smaller ones were tried, within the limit of {limit}"


#: Operators of a graph that a title names.
_NAMED = 4


def title(operators: Sequence[str]) -> str:
    """A graph by its operators."""
    more = len(operators) - _NAMED
    return " + ".join([*operators[:_NAMED], *([f"{more} more"] if more > 0 else [])])


def cause_title(cause: Cause) -> str:
    """A cause by the operators of its smallest graph, and how many others there are."""
    others = set(cause.operators) - set(cause.representative.operators)
    return title(cause.representative.operators) + (
        f" and {counted(len(others), 'other operator')}" if others else ""
    )


def cause_extent(cause: Cause) -> str:
    """In how many tests, operators and dtypes it showed."""
    parts = [counted(cause.tests, "test")]
    if len(cause.operators) > 1:
        parts.append(counted(len(cause.operators), "operator"))
    if len(cause.dtypes) > 1:
        parts.append(" and ".join(cause.dtypes))
    if len(cause.failures) > 1:
        parts.append(f"{len(cause.failures)} graphs saved")
    return ", ".join(parts)
