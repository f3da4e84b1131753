"""Pieces of text that several reports share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

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
    return "; each is needed" if each else "; not all smaller ones were tried"


def duration(seconds: float) -> str:
    """34 s, 2 min 5 s, 1 h 3 min."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
