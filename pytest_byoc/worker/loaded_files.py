"""The files on which the answers of a worker may depend."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any, Iterator

from ..core.files import FileState, state

#: Flags with which a file is opened to be written.
_WRITING = os.O_WRONLY | os.O_RDWR
#: Folders of the system in which files change by themselves.
_VOLATILE = ("/proc/", "/sys/", "/dev/")


class LoadedFiles:
    """The modules and shared libraries that a process has loaded, and the files that Python has opened to
    be read. Files that native code reads are not seen. own: the path of a file that is pytest-byoc's.
    """

    def __init__(self, own: str = "") -> None:
        self._opened: set[Any] = set()
        self._seen: set[Any] = {own, os.path.realpath(own)}
        # The folder of the worker; the one of a job is inside of it.
        self._own = os.path.join(os.path.realpath(tempfile.gettempdir()), "")

    def watch(self) -> None:
        """Notes from now on what is opened. It cannot be ended."""
        sys.addaudithook(self._note)

    def _note(self, event: str, args: Any) -> None:
        if event == "open" and isinstance(args[0], (str, bytes)) and not args[2] & _WRITING:
            self._opened.add(args[0])

    def untold(self) -> list[FileState]:
        """Returns the state of each file that was not returned before, those that were looked for and do
        not exist included."""
        modules = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        found = {*filter(None, modules), *list(self._opened), *_mapped()} - self._seen
        self._seen |= found
        paths = sorted({os.path.realpath(os.fsdecode(given)) for given in found})
        # Python writes compiled modules anew by the sources.
        volatile = (self._own, *_VOLATILE)
        return [state(path) for path in paths if not path.endswith(".pyc") and not path.startswith(volatile)]


def _mapped() -> Iterator[str]:
    """Yields the paths of the files that are mapped into memory."""
    try:
        with open("/proc/self/maps") as maps:
            for line in maps:
                path = line.rstrip("\n").partition("/")[2]
                if path and not path.endswith(" (deleted)"):
                    yield "/" + path
    except OSError:
        return
