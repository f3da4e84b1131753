"""Folders for what a session needs for a while. Each is locked by the process that it is for as long as that
lives, so that a later session can tell, and remove, those of a session that was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..worker.room import lacking
from .session_ended import no_room

_PREFIX = "pytest-byoc-"
_LOCK = ".owner"


class Scratch:
    """A new folder below the system's for temporary files; `remove` it after use. Where there is no room for
    it, the session ends (SessionEnded)."""

    def __init__(self, what: str = "") -> None:
        with _room_for_it():
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX + (f"{what}-" if what else "")))
            # Whoever finds the lock finds it taken.
            made = self.path / f"{_LOCK}.part"
            self._lock = os.open(made, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            made.rename(self.path / _LOCK)

    def new_folder(self, name: str) -> Path:
        """A new folder in it."""
        folder = self.path / name
        with _room_for_it():
            folder.mkdir()
        return folder

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            os.close(self._lock)


@contextmanager
def _room_for_it() -> Iterator[None]:
    try:
        yield
    except OSError as e:
        folder = tempfile.gettempdir()
        raise no_room(lacking(folder) or {"folder": folder, "error": e.strerror, "free": 0}) from None


def sweep() -> None:
    """Removes the folders whose owners are gone: those of this user, in the folder for temporary files."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                        _remove_if_left(Path(entry.path))


def _remove_if_left(folder: Path) -> None:
    """Raises OSError where its owner lives, or it has none that is known."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
