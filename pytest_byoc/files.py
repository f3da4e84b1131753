"""Files read if they are files, written whole or not at all."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path


def read(path: Path) -> bytes:
    """What is in a file. Raises OSError, for a pipe or a device too: reading one may never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "this is no regular file", str(path))
    return path.read_bytes()


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
