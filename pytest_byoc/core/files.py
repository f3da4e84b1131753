"""Files read if they are files, written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

#: Bytes that are read of one file into memory.
LIMIT = 256 << 20


def opened(path: Path) -> BinaryIO:
    """A file opened to be read. Raises OSError, for a pipe or a device too: reading one may never end."""
    # A pipe without a writer is opened at once so.
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    mode = os.fstat(number).st_mode
    if stat.S_ISREG(mode):
        return open(number, "rb")
    os.close(number)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "this is no regular file", str(path))


def read(path: Path) -> bytes:
    """What is in a file. Raises OSError, for a pipe or a device too, and for more than LIMIT bytes."""
    with opened(path) as file:
        # Its size is not all that is known of a file: it may grow, or be one of the kernel's.
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > LIMIT else file.read(LIMIT + 1)
        if max(size, len(data)) > LIMIT:
            raise OSError(errno.EFBIG, f"it has more than {LIMIT >> 20} MiB", str(path))
    return data


def replace(path: Path, data: bytes) -> None:
    """Writes a file, or leaves the one that is there as it was. Raises OSError."""
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
