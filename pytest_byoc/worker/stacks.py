"""The stacks of a job's process, Python's by faulthandler and the native one, written where it crashes or is
told to, and kept apart from what the process prints."""

from __future__ import annotations

import ctypes
import faulthandler
import linecache
import os
import re
import signal
import tempfile
import time
from typing import Any

from ..core.errors import frame
from . import native_stack

#: The signal at which a job's process writes its stacks: one that nobody else is likely to use.
_DUMP = signal.SIGRTMAX - 1
#: Bytes that are read of what was written.
_MOST = 1 << 16
#: Seconds that the writing may take.
_WRITING = 2.0
_FATAL = (signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGBUS, signal.SIGILL)
#: More than a `struct sigaction` has; the handler is its first member.
_ACTION_BYTES = 256
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')
_THREAD = re.compile(r"^(Current thread|Thread) 0x\w+")


class _Symbol(ctypes.Structure):
    _fields_ = [
        ("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p), ("address", ctypes.c_void_p),
    ]  # fmt: skip


def _library_of(address: int) -> str:
    """The file that code at an address was loaded from; empty where that is not known."""
    found = _Symbol()
    library = ctypes.CDLL(None)
    if not address or not hasattr(library, "dladdr"):
        return ""
    if not library.dladdr(ctypes.c_void_p(address), ctypes.byref(found)):
        return ""
    return (found.file or b"").decode(errors="replace")


def come_before_tvm() -> None:
    """TVM's handler of SIGSEGV, which prints the native stack, is installed when TVM is imported, calls none
    of those before it, and so keeps faulthandler's from being called. Has faulthandler, which calls the one
    before it, installed after it (by `write_to`). A vendor's handlers stay as they are."""
    library = ctypes.CDLL(None)
    of_tvm = []
    for number in _FATAL:
        action = ctypes.create_string_buffer(_ACTION_BYTES)
        library.sigaction(int(number), None, action)
        handler = int.from_bytes(action.raw[: ctypes.sizeof(ctypes.c_void_p)], "little")
        if "tvm" in os.path.basename(_library_of(handler)):
            of_tvm.append((number, action))
    if of_tvm:
        faulthandler.disable()
        for number, action in of_tvm:
            library.sigaction(int(number), action, None)


def new_file() -> int:
    """A file without a name, in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("stacks")
    with tempfile.TemporaryFile() as f:
        return os.dup(f.fileno())


def write_to(fd: int) -> None:
    """Has the stacks of this process written to a file where it crashes or is told to."""
    faulthandler.enable(file=fd, all_threads=True)
    faulthandler.register(_DUMP, file=fd, all_threads=True)
    native_stack.install(fd, _DUMP)


def ask(pid: int, fd: int) -> None:
    """Has a process write its stacks, and waits until it has."""
    try:
        os.kill(pid, _DUMP)
    except ProcessLookupError:
        return
    deadline = time.monotonic() + _WRITING
    size, before = 0, -1
    while (not size or size != before) and time.monotonic() < deadline:
        time.sleep(0.02)
        size, before = os.fstat(fd).st_size, size


#: The fatal signals, as faulthandler calls them.
_NAMES = {
    "Segmentation fault": signal.SIGSEGV, "Aborted": signal.SIGABRT, "Bus error": signal.SIGBUS,
    "Illegal instruction": signal.SIGILL, "Floating-point exception": signal.SIGFPE,
}  # fmt: skip


def fatal_signal(fd: int) -> int:
    """The signal that a process has received if it has written its stacks for that reason; or else 0. It may
    hang then: TVM's handler needs memory, which a process that has used it up does not get."""
    if not os.fstat(fd).st_size:
        return 0
    first = read(fd).partition("\n")[0]
    named = (s for name, s in _NAMES.items() if first == "Fatal Python error: " + name)
    return native_stack.fatal_signal(first) or next(named, 0)


def read(fd: int) -> str:
    return os.pread(fd, _MOST, 0).decode(errors="replace")


def frames(text: str) -> list[dict[str, Any]]:
    """Frames, the innermost last, of the thread that a dump of faulthandler is about. Where that thread runs
    nobody's Python but TVM's and the standard library's, those of the first other one that does."""
    threads: list[tuple[bool, list[dict[str, Any]]]] = []
    for line in text.splitlines():
        thread, found = _THREAD.match(line), _FRAME.match(line)
        if thread:
            threads.append((thread.group(1).startswith("Current") and "C stack" not in line, []))
        elif found and threads:
            file, number = found.group(1), int(found.group(2))
            code = linecache.getline(file, number).strip()
            threads[-1][1].insert(0, frame(file, number, found.group(3), code))
        elif not line.strip():
            continue
    threads.sort(key=lambda thread: not thread[0])
    told = [frames for _, frames in threads if any(_is_somebodys(f) for f in frames)]
    return told[0] if told else threads[0][1] if threads else []


def _is_somebodys(frame: dict[str, Any]) -> bool:
    return not (frame["ours"] or frame["tvm"] or frame["standard"])
