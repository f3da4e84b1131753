"""Answers of a target about graphs that are kept on disk, for the next session with the same target."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from ..core.files import FileState, state
from .cache import cache_folder
from .sampling import is_asked_again
from .shared_answers import key_of

#: One stored answer among so many is asked again in a session, another share in each.
_ONE_AMONG = 16
#: The number of targets whose answers are kept.
_KEPT = 30
#: Seconds by which a file has to be older than the session; the clock of a file system is coarse.
_OLDER = 2.0
#: Variables, or the beginnings of their names, that differ between sessions and that no partition function
#: depends on: of terminals, pytest, and the services that run jobs.
_VOLATILE = frozenset((
    "_", "OLDPWD", "SHLVL", "TERM", "COLUMNS", "LINES", "WINDOWID", "TMPDIR", "TMUX", "STY", "PS1",
    "LS_COLORS", "PYTHONUNBUFFERED", "BUILD_ID", "BUILD_NUMBER", "BUILD_TAG", "BUILD_URL",
    "BUILD_DISPLAY_NAME", "JOB_NAME", "JOB_BASE_NAME", "JOB_URL", "JOB_DISPLAY_URL",
))
_VOLATILE_BEGINNINGS = (
    "PYTEST_", "COV_", "SSH_", "XDG_", "DBUS_", "GITHUB_", "RUNNER_", "CI_JOB_", "CI_PIPELINE_", "CI_COMMIT_",
    "CI_RUNNER_", "CI_CONCURRENT_", "CI_BUILD", "CI_SERVER_",
)
_TABLES = """
create table if not exists files (path text primary key, size integer, changed integer);
create table if not exists answers (question text primary key, answer text);
create table if not exists sessions (number integer);
"""


class StoredSurveys:
    """The answers of one target. They hold for sessions with the same configuration and environment, as
    long as all files that the worker has loaded are unchanged.

    path: of the database; None if nothing is kept. began: when the session began, in seconds since the
    epoch. taken: the number of answers that were taken over.
    """

    def __init__(self, path: Path | None = None, began: float = 0.0) -> None:
        self._path = path
        self._began = began - _OLDER
        self._files: dict[str, FileState] = {}
        self._answers: dict[str, str] = {}
        self._new: dict[str, str] = {}
        self._session = 0
        #: Whether what is on disk is to be replaced.
        self._outdated = False
        self.taken = 0
        if path is not None:
            self._load(path)

    @classmethod
    def of(
        cls, configuration: Mapping[str, Any], environment: Mapping[str, str], began: float
    ) -> StoredSurveys:
        """Returns the answers of a target. configuration: of its worker, as JSON can hold it."""
        kept = {
            name: value for name, value in environment.items()
            if name not in _VOLATILE and not name.startswith(_VOLATILE_BEGINNINGS)
        }
        text = json.dumps([configuration, kept, os.getcwd()], sort_keys=True, default=str)
        folder = cache_folder("surveys")
        _remove_oldest(folder)
        return cls(folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.sqlite", began)

    def _load(self, path: Path) -> None:
        try:
            with closing(sqlite3.connect(path, timeout=5.0)) as database:
                database.executescript(_TABLES)
                files = list(database.execute("select path, size, changed from files"))
                self._session = int(database.execute("select count(*) from sessions").fetchone()[0])
                if all(state(file[0]) == file for file in files):
                    self._files = {file[0]: file for file in files}
                    self._answers = dict(database.execute("select question, answer from answers"))
                else:
                    self._outdated = True
        except (sqlite3.Error, OSError):
            # A file that is no database is removed; the next session can keep its answers.
            with suppress(OSError):
                path.unlink()
            self._path = None

    def answer(self, question: Sequence[Any]) -> Any:
        """Returns the answer to a question; None if there is none, or if it is to be asked again."""
        key = key_of(question)
        if key not in self._answers or is_asked_again(key, self._session, _ONE_AMONG):
            return None
        self.taken += 1
        return json.loads(self._answers[key])

    def earlier(self, question: Sequence[Any]) -> Any:
        """Returns the answer that an earlier session has kept; None if there is none."""
        text = self._answers.get(key_of(question)) if self._answers else None
        return None if text is None else json.loads(text)

    def tell(self, question: Sequence[Any], answer: Any) -> None:
        """Notes an answer (data that JSON can hold; None: none); `keep` writes it."""
        if self._path is not None and answer is not None and (key := key_of(question)) not in self._answers:
            self._new[key] = json.dumps(answer)

    def depend_on(self, files: Iterable[Sequence[Any]]) -> None:
        """Notes files on which the answers depend. Answers that depend on one that was changed since the
        session began, or shortly before, are not kept."""
        for path, size, changed in files:
            self._files[path] = (path, size, changed)
            if changed / 1e9 > self._began:
                self._path = None

    def clear(self) -> None:
        """Forgets all answers, on disk too."""
        self._answers, self._new, self._outdated = {}, {}, True

    def keep(self) -> None:
        """Writes the new answers to disk. Where that fails, the next session asks again."""
        if self._path is None or not (self._new or self._outdated):
            return
        with suppress(sqlite3.Error, OSError), closing(sqlite3.connect(self._path, timeout=5.0)) as database:
            with database:
                if self._outdated:
                    database.execute("delete from answers")
                    database.execute("delete from files")
                database.executemany("insert or replace into files values (?, ?, ?)", self._files.values())
                database.executemany("insert or replace into answers values (?, ?)", self._new.items())
                database.execute("insert into sessions values (?)", (self._session,))
            self._new, self._outdated = {}, False


def _remove_oldest(folder: Path) -> None:
    with suppress(OSError):
        for path in sorted(folder.glob("*.sqlite"), key=lambda p: p.stat().st_mtime)[:-_KEPT]:
            path.unlink()
