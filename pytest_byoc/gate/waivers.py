"""Waivers: the file of known failures (--byoc-waivers; docs/how-to/waivers.md describes it).

tomllib reads the values, and its errors name the line. tomlkit tells how many lines each entry has:
these give the line numbers in messages, and --byoc-update-waivers copies the lines of the entries
that stay. """

from __future__ import annotations

import datetime
import difflib
import functools
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.container import Container
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Comment, Item

from ..checks import CHECKS
from ..config.errors import SettingsError
from ..core import files
from ..core.irs import IRS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CHECK_IDS = ("process", *(check.id for check in CHECKS))
_COMMENTS = re.compile(r"(?:[ \t]*#[^\n]*\n)*")
_KEYS = ("check", "case", "message", "reason", "issue", "expires", "target", "ir")
_REQUIRED = ("check", "reason")
_EXAMPLE = '[[waiver]], check = "numerics", case = "nn.conv2d[float32-*]", reason = "…"'


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in text)
    return re.compile("".join(parts), re.DOTALL)


def matches(pattern: str, case: str) -> bool:
    """Returns whether a case's id fits a pattern. Only `*` and `?` are wildcards."""
    return _pattern(pattern).fullmatch(case) is not None


def may_start_with(pattern: str, prefix: str) -> bool:
    """Returns whether a pattern fits any text that starts with a prefix."""
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
    """An entry of the file. case: a pattern of the case's id. message: a pattern of the failure's
    message without numbers and names (`signature.message_key`); it names a cause in any case. One
    of the two may be empty, and fits anything then. line: of the header, from 1. target, ir: empty
    if the entry is for any. text: the lines of the entry in the file, with the comments right above
    it."""

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
        """Returns the key that no two entries of a file share."""
        return self.check, self.case, self.message, self.target, self.ir

    @property
    def cases(self) -> str:
        """Returns the pattern of the cases to which the entry may apply."""
        return self.case or "*"

    @property
    def what(self) -> str:
        """Returns the subject of the entry, as messages name it."""
        return self.case or f"the message {self.message!r}"

    def matches(self, case: str, message: str) -> bool:
        return matches(self.cases, case) and (not self.message or matches(self.message, message))

    def expired(self, today: datetime.date) -> bool:
        """Returns whether the entry has expired. `expires` is the last day on which it holds."""
        return self.expires is not None and today > self.expires

    def toml(self) -> str:
        """Returns the entry as TOML."""
        values = {key: value for key in _KEYS if (value := getattr(self, key))}
        for key, value in values.items():
            if isinstance(value, str):
                # An entry keeps to its lines and controls no terminal.
                values[key] = "".join(c if c.isprintable() else " " for c in value)
        return tomlkit.dumps({"waiver": [values]})

    def comments(self) -> str:
        """Returns the comment lines above the header."""
        above = _COMMENTS.match(self.text)
        return above[0] if above else ""


@dataclass(frozen=True)
class Waivers:
    """A file of waivers as it was read. head: the text before the first entry. today: the day that
    expiry dates are compared with. bom, newline: byte order mark and line ends of the file."""

    path: Path
    today: datetime.date
    entries: tuple[Waiver, ...] = ()
    head: str = ""
    bom: bool = False
    newline: str = "\n"

    def find(self, target: str, ir: str, case: str, check: str, message: str = "") -> Waiver | None:
        """Returns the first entry that holds today and waives this failure; None if there is none.
        message: without numbers and names."""
        found = self._all(target, ir, case, check, message)
        return next((e for e in found if not e.expired(self.today)), None)

    def expired(self, target: str, ir: str, case: str, check: str, message: str = "") -> bool:
        """Returns whether an expired entry would have waived this failure."""
        return any(e.expired(self.today) for e in self._all(target, ir, case, check, message))

    def _all(self, target: str, ir: str, case: str, check: str, message: str) -> list[Waiver]:
        return [
            e for e in self.entries
            if e.check == check and e.is_for(target, ir) and e.matches(case, message)
        ]

    def where(self, entry: Waiver) -> str:
        return f"{self.path.name}:{entry.line}"

    def write(self, entries: Iterable[Waiver]) -> None:
        """Writes the file again: the head, then the entries. Entries of the file keep their lines;
        new ones, which have a text of comments at most, follow an empty line. Raises OSError."""
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
    """Returns today in UTC, or the day of SOURCE_DATE_EPOCH (seconds since 1970) if that is set.
    Raises SettingsError if it is no number of seconds."""
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
    """Reads a file of waivers. Raises SettingsError, with the line number, for one that can't be
    used.

    update: true if the session writes the file, so that it need not exist."""
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
        _check_keys(path, text, content)
        head, pieces = _split(text)
    except tomllib.TOMLDecodeError as e:
        raise SettingsError(_malformed(path, text, str(e))) from None
    except TOMLKitError as e:
        raise SettingsError(f"{path}:{getattr(e, 'line', 1)}: tomlkit cannot parse this: {e}") from None
    except RecursionError:
        raise SettingsError(f"--byoc-waivers: {path} is nested too deeply") from None
    tables = content.get("waiver", [])
    if not isinstance(tables, list) or len(tables) != len(pieces):
        raise SettingsError(
            f"{path}:{_line_of(text, 'waiver')}: each waiver must be a table with the header [[waiver]]"
        )
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
    """Returns the text before the first entry; then the line number of each entry's header, and the
    entry's text with the comments right above it.

    The texts are slices of the file: tomlkit itself would write `[[ waiver ]]` as `[[waiver]]`."""
    document = tomlkit.parse(text)
    tables = document.get("waiver")
    if not isinstance(tables, AoT):
        return text, []
    head = list(takewhile(lambda item: not isinstance(item, AoT), _items(document)))
    header = sum(item.as_string().count("\n") for item in head)
    headers, starts = [header], [header - _comments_at_end(head)]
    for table in tables:
        header += 1 + table.as_string().count("\n")
        headers.append(header)
        starts.append(header - _comments_at_end(_items(table.value)))
    # Not `splitlines`, for which more characters end a line than for TOML.
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    starts[-1] = len(lines)
    pieces = [(n + 1, "".join(lines[a:b])) for n, a, b in zip(headers, starts, starts[1:])]
    return "".join(lines[: starts[0]]), pieces


def _items(container: Container) -> list[Item]:
    return [item for _, item in container.body]


def _comments_at_end(items: Sequence[Item]) -> int:
    """Returns the number of comment lines after the last value and the last empty line. tomlkit
    counts them to the table before them; people write them above the header that follows."""
    return sum(1 for _ in takewhile(lambda item: isinstance(item, Comment), reversed(items)))


def _line_of(text: str, key: str) -> int:
    found = re.search(rf"^[ \t]*\[*[ \t]*[\"']?{re.escape(key)}\b", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def _check_keys(path: Path, text: str, content: Mapping[str, Any]) -> None:
    for key in content:
        if key != "waiver":
            raise SettingsError(
                f"{path}:{_line_of(text, key)}: unknown table or key {key!r}; the file holds entries "
                f"{_EXAMPLE}, each on a line of its own"
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
