"""Temporary folders of a session. The process that owns a folder keeps it locked while it lives, so
that a later session can recognise and remove the folders of a session that was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..worker.disk_space import lacking
from .session_ended import no_room

_PREFIX = "pytest-byoc-"
_LOCK = ".owner"


class Scratch:
    """A new folder in the system's folder for temporary files; call `remove` after use. Raises
    SessionEnded if there is no room for it."""

    def __init__(self, what: str = "") -> None:
        with _room_for_it():
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX + (f"{what}-" if what else "")))
            # The file gets its final name when it is locked already.
            made = self.path / f"{_LOCK}.part"
            self._lock = os.open(made, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            made.rename(self.path / _LOCK)

    def new_folder(self, name: str) -> Path:
        """Creates a folder inside this one and returns its path. Raises SessionEnded if there is no
        room."""
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
    """Removes this user's folders whose owners have ended."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                        _remove_if_left(Path(entry.path))


def _remove_if_left(folder: Path) -> None:
    """Removes a folder whose owner has ended. Raises OSError if the owner lives or is not known."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
