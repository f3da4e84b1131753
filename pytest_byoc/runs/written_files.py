"""Finds the files that a target writes outside its artifact while it partitions, builds and exports.

Python's audit events tell what Python code opens for writing. Files that C++ code or another program
writes are found by their paths in the artifact.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from typing import Any, Iterable

#: Absolute paths in a library: what is printable after a slash.
_PATHS = re.compile(rb"/[\x21-\x7e]{2,1000}")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

#: The paths that were opened for writing, and the time since when they were recorded.
_opened: set[str] = set()
_since = 0.0


def watch() -> None:
    """Records from now on what this process, and processes forked from it, open for writing.

    It is called once, since Python can't take an audit hook back.
    """
    global _since
    _since = time.time()
    sys.addaudithook(_record)


def _record(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open":
        path, _, flags = arguments
        if not flags & _WRITING:
            return
    elif event == "os.rename":
        path = arguments[1]
    else:
        return
    if isinstance(path, (str, bytes)):
        _opened.add(os.path.abspath(os.fsdecode(path)))


def elsewhere(artifacts: Iterable[str]) -> list[str]:
    """Returns the existing files that were written since `watch` was called, outside certain folders.

    These are the folders of the artifacts, and the folder for this process's temporary files, which
    is removed before an artifact is loaded.
    """
    artifacts = list(artifacts)
    named = {path for artifact in artifacts for path in _paths_in(artifact)}
    paths = {os.path.realpath(path) for path in _opened | {p for p in named if _is_new(p)}}
    own = {os.path.realpath(f) for f in (tempfile.gettempdir(), *map(os.path.dirname, artifacts))}
    return sorted(
        path for path in paths
        if os.path.isfile(path) and "__pycache__" not in path
        and not any(path.startswith(folder + os.sep) for folder in own)
    )  # fmt: skip


def _paths_in(artifact: str) -> set[str]:
    with open(artifact, "rb") as f:
        return {os.fsdecode(path) for path in _PATHS.findall(f.read())}


def _is_new(path: str) -> bool:
    """Returns whether a path exists and has changed since `watch` was called."""
    try:
        return os.stat(path).st_ctime >= _since
    except OSError:
        return False
