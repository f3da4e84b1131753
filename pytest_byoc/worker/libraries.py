"""What a worker loads beside TVM: shared libraries, and Python files that register functions with it."""

from __future__ import annotations

import ctypes
import os
from typing import Iterable

from ..core.errors import Failure


def is_python(path: str) -> bool:
    """Whether it is a Python file, to be imported where a library is loaded."""
    return path.endswith(".py")


def is_path(given: str) -> bool:
    """Whether it says where a file is: a bare name of a shared library is the dynamic loader's to find."""
    return os.sep in given or is_python(given)


def load_shared(paths: Iterable[str], with_tvm: bool = False) -> list[str]:
    """Loads the shared libraries among them for all to see. Raises Failure for one that does not load.

    with_tvm: whether TVM has been imported. Before that those that lack a symbol are returned: it may be one
    of TVM's, of a library with a runtime module in it."""
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
    """Imports the Python files among them; TVM is there by then. Raises Failure for one that is missing, and
    what they raise."""
    from ..core.importing import import_file

    for path in paths:
        if not is_python(path):
            continue
        if not os.path.isfile(path):
            raise Failure("there is no file %s (given as a library)" % path)
        import_file(path)


def running_threads() -> int:
    """How many there are beside this one, none of which a forked child has; 0 where that is not known."""
    try:
        return len(os.listdir("/proc/self/task")) - 1
    except OSError:
        return 0
