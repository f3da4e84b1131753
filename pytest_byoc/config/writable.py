"""Checks before the tests run that the files of a session can be written at its end."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .errors import SettingsError

#: Folders of devices and of open files of processes: files there are replaced when a new one is
#: written.
_DEVICES = (Path("/dev"), Path("/dev/fd"), Path("/proc"))


def check_apart(written: Mapping[str, Path | None], read: Mapping[str, Path | None]) -> None:
    """Raises SettingsError if one file would be written twice, or would overwrite one that is read.

    written, read: the files by the options that name them."""
    known = {os.path.realpath(path): name for name, path in read.items() if path is not None}
    for name, path in written.items():
        if path is not None:
            other = known.setdefault(os.path.realpath(path), name)
            if other != name:
                raise SettingsError(f"{name} and {other} name the same file {path}: name another one")


def check_folder(path: Path) -> None:
    """Raises SettingsError if the folder of failures cannot be written. The folder itself is
    created with the first failure."""
    there = next(p for p in (path, *path.parents) if os.path.lexists(p))
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as e:
        raise SettingsError(
            f"{path}, where failures are saved, cannot be written: {e.strerror}; run pytest in a folder that "
            "can be written, or name one with --byoc-report"
        ) from None


def check_writable(path: Path, option: str) -> None:
    """Raises SettingsError if a file that an option names cannot be written."""
    device = Path(os.path.abspath(path)).parent in _DEVICES
    if device or (path.exists() and not (path.is_file() or path.is_dir())):
        raise SettingsError(f"{option}: {path} is not a regular file; name a file, and print it afterwards")
    try:
        if path.parent.is_file():
            raise NotADirectoryError(f"{path.parent} is a file; name a folder, or a file that ends in .json")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a directory; name a file")
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as e:
        raise SettingsError(f"{option}: {path} cannot be written: {e}") from None
