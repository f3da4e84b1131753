"""Reads regular files up to a size limit, and writes files atomically."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Tuple

#: The largest file, in bytes, that `read` loads into memory.
LIMIT = 256 << 20
#: Path, size in bytes and time of the last change in ns of a file; -1 and 0 for one that does not exist.
FileState = Tuple[str, int, int]


def digest(path: str | Path) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal. Raises OSError."""
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            found.update(block)
    return found.hexdigest()


def state(path: str) -> FileState:
    """Returns the state of a file."""
    try:
        found = os.stat(path)
        return path, found.st_size, found.st_mtime_ns
    except OSError:
        return path, -1, 0


def opened(path: Path) -> BinaryIO:
    """Opens a regular file for reading.

    Raises OSError, also for a pipe or a device, since reading one may never end.
    """
    # With O_NONBLOCK, opening a pipe that has no writer does not block.
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    mode = os.fstat(number).st_mode
    if stat.S_ISREG(mode):
        return open(number, "rb")
    os.close(number)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "this is no regular file", str(path))


def read(path: Path) -> bytes:
    """Returns the content of a file.

    Raises OSError, also for a pipe or a device, and for a file of more than LIMIT bytes.
    """
    with opened(path) as file:
        # The size alone is not enough: the file may grow, and files in /proc state a size of 0.
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > LIMIT else file.read(LIMIT + 1)
        if max(size, len(data)) > LIMIT:
            raise OSError(errno.EFBIG, f"it has more than {LIMIT >> 20} MiB", str(path))
    return data


def replace(path: Path, data: bytes) -> None:
    """Writes a file atomically: where it raises OSError, an existing file is unchanged."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
