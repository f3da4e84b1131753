"""Tests whether a job's folder has room for files: a failure without room is not the target's."""

from __future__ import annotations

import errno
import os
import tempfile
from typing import Any

#: The number of bytes that must be free: less than a compiler's output for a large graph, and
#: written in milliseconds.
NEEDED = 4 << 20
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def is_scarce(folder: str) -> bool:
    """Returns whether the file system states too little free space, which takes microseconds."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize < NEEDED or (status.f_files > 0 and not status.f_favail)


def lacking(folder: str) -> dict[str, Any] | None:
    """Tries to write a file of NEEDED bytes to a folder; returns None if there is room for it.

    Where there is no space, the quota is used up, or the file system is read-only, it returns
    {"folder", "error" (in words), "free" (bytes), "used" (bytes of all files in the folder)}.
    """
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as f:
            left = NEEDED
            while left > 0:
                left -= f.write(b"\1" * min(left, 1 << 20))
        return None
    except OSError as e:
        if e.errno not in _NO_ROOM:
            return None
        return {"folder": folder, "error": e.strerror or str(e), "free": _free(folder), "used": _used(folder)}


def _free(folder: str) -> int:
    try:
        status = os.statvfs(folder)
    except OSError:
        return 0
    return status.f_bavail * status.f_frsize


def _used(folder: str) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except OSError:
                continue
    return total
