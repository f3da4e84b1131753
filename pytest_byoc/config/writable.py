"""Whether the files that a session is to write can be written: better known before it than when it ends."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .declarations import SettingsError

#: Folders of devices and of the files that processes have open: a new file there would take their place.
_DEVICES = (Path("/dev"), Path("/dev/fd"), Path("/proc"))


def check_apart(written: Mapping[str, Path | None], read: Mapping[str, Path | None]) -> None:
    """Raises SettingsError where one file is to be written twice, or over one that is read. The keys are the
    options that name the files."""
    known = {os.path.realpath(path): name for name, path in read.items() if path is not None}
    for name, path in written.items():
        if path is not None:
            other = known.setdefault(os.path.realpath(path), name)
            if other != name:
                raise SettingsError(f"{name} and {other} name the same file {path}: name another one")


def check_folder(path: Path) -> None:
    """Raises SettingsError where the folder of failures can't be written. It is made when it is needed."""
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
    """Raises SettingsError where a file that an option names can't be written."""
    device = Path(os.path.abspath(path)).parent in _DEVICES
    if device or (path.exists() and not (path.is_file() or path.is_dir())):
        raise SettingsError(f"{option}: {path} is no regular file; name one, and print it afterwards")
    try:
        if path.parent.is_file():
            raise NotADirectoryError(f"{path.parent} is a file; name a folder, or a file that ends in .json")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a directory")
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as e:
        raise SettingsError(f"{option}: {path} cannot be written: {e}") from None
