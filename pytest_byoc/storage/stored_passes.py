"""The graphs that a session has passed, in a file beside its report, for --byoc-changed-since.

A later session takes a pass over if the target still makes the same code of the graph, and if nothing has
changed that runs this code or judges it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..config.errors import SettingsError
from ..core import files
from ..core.files import FileState, digest, state
from ..evidence.earlier_pass import Pass
from .sampling import is_asked_again

FORMAT, VERSION = "pytest-byoc/passes", 1
#: One pass among so many is not taken over in a session, another share in each.
_ONE_AMONG = 16
#: The text of a condition in which the shards of a session differ.
_DIFFERS = "differs between shards"
#: The folder of this package.
_OWN = os.path.join(os.path.realpath(Path(__file__).parents[1]), "")
_REMEDY = "name the report.json of a session that ended, with the files beside it (--byoc-report writes them)"


@dataclass
class Passes:
    """The passes of one target in one IR.

    conditions: what else the passes depend on, by its name in words. files: the digests of the files
    they depend on. passes: by the key of graph and effort. sessions: the number of sessions in which
    these have been taken over one from the other.
    """

    conditions: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    passes: dict[str, dict[str, Any]] = field(default_factory=dict)
    sessions: int = 0
    #: A file that has changed while the session ran, so that no pass was kept; "" if none has.
    changed: str = ""
    #: The files as they were when the session depended on them, whose digests `files` doesn't have yet.
    states: set[FileState] = field(default_factory=set)

    def depend_on(self, given: Iterable[Sequence[Any]]) -> None:
        """Notes files on which the passes depend, as they are now. pytest-byoc's own are left to a
        condition."""
        self.states.update((path, size, at) for path, size, at in given if not path.startswith(_OWN))

    def add(self, other: Mapping[str, Any]) -> None:
        """Adds the passes of another process, as `take` returns them, or of a shard.

        A shard without a file of passes has no conditions. A condition in which two shards differ is met by
        no later session.
        """
        ours, theirs = self.conditions, other["conditions"]
        self.conditions = {**ours, **theirs}
        if ours and theirs:
            self.conditions.update((what, _DIFFERS) for what, _ in ours.items() ^ theirs.items())
        self.sessions = max(self.sessions, other["sessions"])
        self.files.update(other["files"])
        self.passes.update(other["passes"])
        self.depend_on(other["states"])

    def take(self) -> dict[str, Any]:
        """Returns everything that was added since the last call, and forgets the passes and files."""
        taken = {
            "conditions": self.conditions, "sessions": self.sessions, "files": self.files,
            "passes": self.passes, "states": [list(one) for one in sorted(self.states)],
        }
        self.files, self.passes, self.states = {}, {}, set()
        return taken

    def as_dict(self) -> dict[str, Any]:
        """Returns what is written to the file. There are no passes if a file has changed meanwhile."""
        changed = next((one[0] for one in sorted(self.states) if state(one[0]) != one), "")
        found = {path: _digest(path) for path, _, _ in self.states}
        return {
            "sessions": self.sessions, "changed": changed, "conditions": self.conditions,
            "files": dict(sorted({**self.files, **found}.items())),
            "passes": {} if changed else dict(sorted(self.passes.items())),
        }


class EarlierPasses:
    """The passes of an earlier session that may be taken over; none until `open` finds that they may."""

    def __init__(self) -> None:
        self._passes: Mapping[str, Mapping[str, Any]] = {}
        self._sessions = 0

    def open(self, report: Path, name: str, ir: str, new: Passes) -> str:
        """Reads the passes of a target from the file beside a report. Returns why none of them holds now; ""
        if they hold. Raises SettingsError for a file that can't be used.

        new: the passes of this session, with its conditions; it keeps what is taken over.
        """
        then = read(report).get(_key(name, ir))
        if then is None:
            return f"it has no passes of {name} in {ir}"
        if then.changed:
            return f"{then.changed} changed while that session ran"
        differs = [what for what, text in new.conditions.items() if then.conditions.get(what) != text]
        if differs:
            return f"changed since: {', '.join(differs)}"
        changed = [path for path, was in then.files.items() if _digest(path) != was]
        if changed:
            more = f" and {len(changed) - 1} more files" if len(changed) > 1 else ""
            return f"changed since: {changed[0]}{more}"
        self._passes, self._sessions = then.passes, then.sessions
        new.files.update(then.files)
        new.sessions = then.sessions + 1
        return ""

    def of(self, key: str) -> Pass | None:
        """Returns the pass of a graph that is to be taken over if its code is the same; None otherwise."""
        if key not in self._passes or is_asked_again(key, self._sessions, _ONE_AMONG):
            return None
        return Pass.from_dict(self._passes[key])

    def end_if_passed(self, key: str, code: Mapping[str, str]) -> None:
        """Takes nothing over any more if a graph that fails now has passed with the same code."""
        earlier = self._passes.get(key)
        if earlier is not None and code and earlier["code"] == code:
            self._passes = {}


def key_of(graph: bytes, effort: str) -> str:
    """Returns the key of a pass. graph: its digest. effort: with which it was examined, as text."""
    return hashlib.sha256(graph + effort.encode()).hexdigest()[:24]


def path_beside(report: Path) -> Path:
    """Returns the path of the file with the passes. report: report.json, or its folder."""
    report = report if report.suffix == ".json" else report / "report.json"
    return report.with_suffix(".passes.json")


def of_shard(report: Path, name: str, ir: str) -> Passes:
    """Returns the passes of a target in the file beside a shard's report; none if there is no such file."""
    with suppress(SettingsError):
        return read(report).get(_key(name, ir), Passes())
    return Passes()


def write(report: Path, targets: Mapping[tuple[str, str], Passes]) -> None:
    """Writes the passes of targets, by name and IR, beside a report."""
    found = {_key(*target): passes.as_dict() for target, passes in targets.items()}
    data = json.dumps({"format": FORMAT, "version": VERSION, "targets": found}, separators=(",", ":"))
    files.replace(path_beside(report), data.encode())


@cache
def read(report: Path) -> Mapping[str, Passes]:
    """Returns the passes of each target in the file beside a report. Raises SettingsError for a file that
    can't be used."""
    path = path_beside(report)
    try:
        found = json.loads(files.read(path))
        if (found["format"], found["version"]) != (FORMAT, VERSION):
            raise ValueError("it has another format or version")
        return {str(name): _passes(given) for name, given in found["targets"].items()}
    except OSError as e:
        raise SettingsError(f"--byoc-changed-since: {path} cannot be read: {e.strerror}; {_REMEDY}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        text = f"{type(e).__name__}: {e}"
        raise SettingsError(f"--byoc-changed-since: {path} is damaged ({text}); {_REMEDY}") from None


def _passes(given: Mapping[str, Any]) -> Passes:
    passes = {str(key): asdict(Pass.from_dict(one)) for key, one in given["passes"].items()}
    sessions, changed = int(given["sessions"]), str(given["changed"])
    return Passes(dict(given["conditions"]), dict(given["files"]), passes, sessions, changed)


def _key(name: str, ir: str) -> str:
    return f"{name} in {ir}"


def _digest(path: str) -> str:
    """Returns the digest of a file; "" where it can't be read."""
    try:
        return digest(path)
    except OSError:
        return ""
