"""Loads a target's libraries: shared ones, and Python files that register functions with TVM."""

from __future__ import annotations

import ctypes
import os
from typing import Iterable

from ..core.errors import Failure


def is_python(path: str) -> bool:
    """Returns whether a library is a Python file, which is imported rather than loaded."""
    return path.endswith(".py")


def is_path(given: str) -> bool:
    """Returns whether a library is given by a path; the loader searches for a mere name."""
    return os.sep in given or is_python(given)


def load_shared(paths: Iterable[str], with_tvm: bool = False) -> list[str]:
    """Loads the shared libraries among the paths (RTLD_GLOBAL). Raises Failure if that fails.

    with_tvm: whether TVM has been imported. If not, libraries that lack a symbol are returned,
    since the symbol may be TVM's, as for a library that contains a runtime module.
    """
    waiting = []
    for path in paths:
        if is_python(path):
            continue
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as e:
            if not with_tvm and "undefined symbol" in str(e):
                waiting.append(path)
                continue
            hint = "" if is_path(path) else "; a file of yours is written with its folder: ./%s" % path
            raise Failure("library %s does not load: %s%s" % (path, e, hint)) from None
    return waiting


def import_python(paths: Iterable[str]) -> None:
    """Imports the Python files among the paths, once TVM has been imported.

    Raises Failure for a missing file. Exceptions of the files pass through.
    """
    from ..core.importing import import_file

    for path in paths:
        if not is_python(path):
            continue
        if not os.path.isfile(path):
            raise Failure("there is no file %s (given as a library)" % path)
        import_file(path)


def running_threads() -> int:
    """Returns the number of other threads in this process; 0 where it is unknown.

    A forked child has none of them.
    """
    try:
        return len(os.listdir("/proc/self/task")) - 1
    except OSError:
        return 0
