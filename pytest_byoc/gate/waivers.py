"""Waivers: the file of known failures (--byoc-waivers; docs/how-to/waivers.md describes it).

The file is split into its entries as text too: that gives their line numbers, and lets
--byoc-update-waivers keep what stays, comments and all, as it was written.
"""

from __future__ import annotations

import datetime
import difflib
import functools
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..checks import CHECKS
from ..config.declarations import SettingsError
from ..core import files
from ..core.irs import IRS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CHECK_IDS = ("process", *(check.id for check in CHECKS))
_HEADER = re.compile(r"[ \t]*\[\[[ \t]*waiver[ \t]*\]\]")
_KEYS = ("check", "case", "message", "reason", "issue", "expires", "target", "ir")
_REQUIRED = ("check", "reason")
_EXAMPLE = '[[waiver]], check = "numerics", case = "nn.conv2d[float32-*]", reason = "…"'


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in text)
    return re.compile("".join(parts), re.DOTALL)


def matches(pattern: str, case: str) -> bool:
    """Whether a case's id fits a pattern, in which `*` and `?` are wild and nothing else is."""
    return _pattern(pattern).fullmatch(case) is not None


def may_start_with(pattern: str, prefix: str) -> bool:
    """Whether a pattern fits any text that starts with a prefix."""
    for i, c in enumerate(prefix):
        if i == len(pattern):
            return False
        if pattern[i] == "*":
            return True
        if pattern[i] not in ("?", c):
            return False
    return True


@dataclass(frozen=True)
class Waiver:
    """One entry. case, message: patterns of the case's id, and of the failure's message without
    numbers and names (`signature.message_key`): a cause, whichever cases it shows in. One of the
    two may be empty, which is any. line: of its header, from 1. target, ir: the only ones it is
    for, or empty. text: the entry as it stands in the file, with the comments right above it."""

    check: str
    case: str = ""
    reason: str = ""
    issue: str = ""
    expires: datetime.date | None = None
    target: str = ""
    ir: str = ""
    line: int = 0
    text: str = ""
    message: str = ""

    def is_for(self, target: str, ir: str) -> bool:
        return self.target in ("", target) and self.ir in ("", ir)

    @property
    def place(self) -> tuple[str, ...]:
        """What no two entries have in common."""
        return self.check, self.case, self.message, self.target, self.ir

    @property
    def cases(self) -> str:
        """The pattern of the cases that it may be for."""
        return self.case or "*"

    @property
    def what(self) -> str:
        """What it is for, in messages."""
        return self.case or f"the message {self.message!r}"

    def matches(self, case: str, message: str) -> bool:
        return matches(self.cases, case) and (not self.message or matches(self.message, message))

    def expired(self, today: datetime.date) -> bool:
        """`expires` is the last day on which the entry holds."""
        return self.expires is not None and today > self.expires

    def toml(self) -> str:
        """The entry as TOML."""
        lines = ["[[waiver]]"]
        for key in _KEYS:
            value = getattr(self, key)
            if isinstance(value, datetime.date):
                lines.append(f"{key} = {value.isoformat()}")
            elif value:
                lines.append(f"{key} = {_string(value)}")
        return "\n".join(lines) + "\n"

    def comments(self) -> str:
        """The comment lines above its header."""
        above = []
        for line in _lines(self.text):
            if _HEADER.match(line):
                break
            above.append(line)
        return "".join(above)


def _string(text: str) -> str:
    # What JSON escapes TOML does too; other unprintable characters TOML does not take.
    return json.dumps("".join(c if c.isprintable() else " " for c in text), ensure_ascii=False)


@dataclass(frozen=True)
class Waivers:
    """A file of waivers, read. head: its text before the first entry. today: what expiry dates are
    compared with. bom, newline: how the file was written."""

    path: Path
    today: datetime.date
    entries: tuple[Waiver, ...] = ()
    head: str = ""
    bom: bool = False
    newline: str = "\n"

    def find(self, target: str, ir: str, case: str, check: str, message: str = "") -> Waiver | None:
        """The first entry that holds today and waives this failure. message: without numbers and names."""
        found = self._all(target, ir, case, check, message)
        return next((e for e in found if not e.expired(self.today)), None)

    def expired(self, target: str, ir: str, case: str, check: str, message: str = "") -> bool:
        """Whether an entry that has expired would have waived this failure."""
        return any(e.expired(self.today) for e in self._all(target, ir, case, check, message))

    def _all(self, target: str, ir: str, case: str, check: str, message: str) -> list[Waiver]:
        return [
            e for e in self.entries
            if e.check == check and e.is_for(target, ir) and e.matches(case, message)
        ]

    def where(self, entry: Waiver) -> str:
        return f"{self.path.name}:{entry.line}"

    def write(self, entries: Iterable[Waiver]) -> None:
        """The file anew: its head, entries with their text as it was, others (whose text is at most
        comments) an empty line apart. Raises OSError."""
        text = self.head
        for entry in entries:
            if text and not text.endswith("\n"):
                text += "\n"
            if entry in self.entries:
                text += entry.text
                continue
            if text and not text.endswith("\n\n"):
                text += "\n"
            text += entry.text + entry.toml()
        data = text.replace("\n", self.newline).encode()
        files.replace(self.path, (b"\xef\xbb\xbf" if self.bom else b"") + data)


def today() -> datetime.date:
    """Today in UTC; the day of SOURCE_DATE_EPOCH (seconds) where that is set. Raises SettingsError."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if not given:
        return datetime.datetime.now(datetime.timezone.utc).date()
    try:
        return datetime.datetime.fromtimestamp(int(given), datetime.timezone.utc).date()
    except (ValueError, OverflowError, OSError):
        raise SettingsError(
            f"the environment variable SOURCE_DATE_EPOCH must be seconds since 1970, found {given!r}"
        ) from None


def read(path: Path, update: bool) -> Waivers:
    """The waivers in a file. Raises SettingsError, with the line number, for one that can't be used.

    update: whether the file is to be written, and so need not exist."""
    now = today()
    try:
        data = files.read(path)
    except FileNotFoundError:
        if update:
            return Waivers(path, now)
        raise SettingsError(
            f"--byoc-waivers: there is no file {path}; --byoc-update-waivers would write one"
        ) from None
    except OSError as e:
        raise SettingsError(f"--byoc-waivers: {path} cannot be read: {e.strerror}") from None
    bom = data.startswith(b"\xef\xbb\xbf")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise SettingsError(f"{path}:{line}: this is not UTF-8; save the file as UTF-8") from None
    newline = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise SettingsError(_malformed(path, text, str(e))) from None
    except RecursionError:
        raise SettingsError(f"--byoc-waivers: {path} is nested too deeply") from None
    head, pieces = _split(text)
    _check_shape(path, text, content, len(pieces))
    tables = content.get("waiver", [])
    entries = tuple(_entry(path, e, line, piece) for e, (line, piece) in zip(tables, pieces))
    _check_unique(path, entries)
    return Waivers(path, now, entries, head, bom, newline)


def _malformed(path: Path, text: str, error: str) -> str:
    lines = text.split("\n")
    found = re.search(r"\(at line (\d+), column (\d+)\)", error)
    line = int(found[1]) if found else len(lines)
    said = re.sub(r" \(at .*\)$", "", error)
    remedy = f"an entry is written as {_EXAMPLE}, each on a line of its own"
    if line <= len(lines) and re.match(r"\s*expires\s*=", lines[line - 1]):
        remedy = "a date is written as expires = 2027-01-31, without quotes"
    return f"{path}:{line}: this is not valid TOML: {said}; {remedy}"


def _split(text: str) -> tuple[str, list[tuple[int, str]]]:
    """The text before the first entry; line number of the header and text of each entry."""
    lines = _lines(text)
    headers = [i for i, line in enumerate(lines) if _HEADER.match(line)]
    # A header inside a string of several lines is none: what ends there is no TOML.
    starts: list[int] = []
    for header in headers:
        if _is_toml(lines[starts[-1] if starts else 0 : header]):
            starts.append(header)
    bounds = []
    for i, start in enumerate(starts):
        floor = starts[i - 1] if i else -1
        top = start
        while top - 1 > floor and lines[top - 1].lstrip().startswith("#"):
            top -= 1
        bounds.append(top if _is_toml(lines[max(floor, 0) : top]) else start)
    pieces = [
        (start + 1, "".join(lines[top:end]))
        for start, top, end in zip(starts, bounds, [*bounds[1:], len(lines)])
    ]
    return "".join(lines[: bounds[0]] if bounds else lines), pieces


def _lines(text: str) -> list[str]:
    """Its lines with their ends. Not `splitlines`, for which more characters end a line than for TOML."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _is_toml(lines: Sequence[str]) -> bool:
    try:
        tomllib.loads("".join(lines))
    except tomllib.TOMLDecodeError:
        return False
    return True


def _line_of(text: str, key: str) -> int:
    found = re.search(rf"^[ \t]*\[*[ \t]*[\"']?{re.escape(key)}\b", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _check_shape(path: Path, text: str, content: Mapping[str, Any], pieces: int) -> None:
    for key in content:
        if key != "waiver":
            raise SettingsError(
                f"{path}:{_line_of(text, key)}: unknown table or key {key!r}; the file holds entries "
                f"{_EXAMPLE}, each on a line of its own"
            )
    entries = content.get("waiver", [])
    if not isinstance(entries, list) or len(entries) != pieces:
        raise SettingsError(
            f"{path}:{_line_of(text, 'waiver')}: each waiver must be a table with the header [[waiver]]"
        )


def _entry(path: Path, entry: Mapping[str, Any], line: int, text: str) -> Waiver:
    def refuse(message: str) -> SettingsError:
        return SettingsError(f"{path}:{line}: {message}")

    for key in entry:
        if key not in _KEYS:
            raise refuse(f"unknown key {key!r}{nearest(key, _KEYS)}; known are {', '.join(_KEYS)}")
    needs = "every waiver needs check, reason, and case or message"
    missing = [key for key in _REQUIRED if key not in entry]
    if missing:
        raise refuse(f"this entry has no {' and no '.join(missing)}; {needs}")
    if "case" not in entry and "message" not in entry:
        raise refuse(f"this entry has no case and no message; {needs}")
    for key, value in entry.items():
        if key == "expires":
            if type(value) is not datetime.date:
                found = repr(value) if isinstance(value, str) else str(value)
                raise refuse(f"expires must be a date, written as 2027-01-31 without quotes, found {found}")
        elif not isinstance(value, str) or not value.strip():
            raise refuse(f"{key} must be a string that is not empty, found {value!r}")
    if entry["check"] not in CHECK_IDS:
        near = nearest(entry["check"], CHECK_IDS)
        raise refuse(f"unknown check {entry['check']!r}{near}; known are {', '.join(CHECK_IDS)}")
    if entry.get("ir", IRS[0]) not in IRS:
        raise refuse(f"ir must be {' or '.join(IRS)}, found {entry['ir']!r}")
    return Waiver(**entry, line=line, text=text)


def nearest(given: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(given, known, 1)
    return f" (did you mean {near[0]}?)" if near else ""


def _check_unique(path: Path, entries: Sequence[Waiver]) -> None:
    seen: dict[tuple[str, ...], Waiver] = {}
    for entry in entries:
        first = seen.setdefault(entry.place, entry)
        if first is not entry:
            also = "message" if entry.message else "case"
            raise SettingsError(
                f"{path}:{entry.line}: the same check and {also} as in line {first.line}; remove one of the "
                "two"
            )
