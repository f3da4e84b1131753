"""Has a job's process write its stacks, in a crash or on request, to a file apart from its output.

Python's stacks are written by faulthandler, the native one by `native_stack.c`.
"""

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

#: The signal that requests the stacks of a job's process. No other code is likely to use it.
_DUMP = signal.SIGRTMAX - 1
#: The number of bytes of the stacks that are read.
_MOST = 1 << 16
#: The time limit for writing the stacks, in seconds.
_WRITING = 2.0
_FATAL = (signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGBUS, signal.SIGILL)
#: More bytes than a `struct sigaction` has; the handler is its first member.
_ACTION_BYTES = 256
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$')
_THREAD = re.compile(r"^(Current thread|Thread) 0x\w+")


class _Symbol(ctypes.Structure):
    _fields_ = [
        ("file", ctypes.c_char_p), ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p), ("address", ctypes.c_void_p),
    ]  # fmt: skip


def _library_of(address: int) -> str:
    """Returns the file that the code at an address was loaded from; "" where it is unknown."""
    symbol = _Symbol()
    library = ctypes.CDLL(None)
    if not address or not hasattr(library, "dladdr"):
        return ""
    if not library.dladdr(ctypes.c_void_p(address), ctypes.byref(symbol)):
        return ""
    return (symbol.file or b"").decode(errors="replace")


def come_before_tvm() -> None:
    """Disables faulthandler where TVM has handlers of fatal signals, and restores TVM's handlers.

    TVM installs its SIGSEGV handler, which prints the native stack, when it is imported. It does
    not call the handlers before it, so faulthandler's would never run. `write_to` enables
    faulthandler again, after TVM's; faulthandler does call the handler before it. A vendor's
    handlers stay.
    """
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
    """Returns a descriptor of a new unnamed file, in memory where the system supports it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("stacks")
    with tempfile.TemporaryFile() as f:
        return os.dup(f.fileno())


def write_to(fd: int) -> None:
    """Installs the handlers that write this process's stacks to a file in a crash or on request."""
    faulthandler.enable(file=fd, all_threads=True)
    faulthandler.register(_DUMP, file=fd, all_threads=True)
    native_stack.install(fd, _DUMP)


def ask(pid: int, fd: int) -> None:
    """Has a process write its stacks, and waits for that, at most `_WRITING` seconds."""
    try:
        os.kill(pid, _DUMP)
    except ProcessLookupError:
        return
    deadline = time.monotonic() + _WRITING
    size, before = 0, -1
    while (not size or size != before) and time.monotonic() < deadline:
        time.sleep(0.02)
        size, before = os.fstat(fd).st_size, size


#: The fatal signals by their names in faulthandler's output.
_NAMES = {
    "Segmentation fault": signal.SIGSEGV, "Aborted": signal.SIGABRT, "Bus error": signal.SIGBUS,
    "Illegal instruction": signal.SIGILL, "Floating-point exception": signal.SIGFPE,
}  # fmt: skip


def fatal_signal(fd: int) -> int:
    """Returns the fatal signal for which a process has written its stacks; 0 if there was none.

    The process may hang afterwards: TVM's handler allocates memory, and there may be none left.
    """
    if not os.fstat(fd).st_size:
        return 0
    first = read(fd).partition("\n")[0]
    named = (s for name, s in _NAMES.items() if first == "Fatal Python error: " + name)
    return native_stack.fatal_signal(first) or next(named, 0)


def read(fd: int) -> str:
    return os.pread(fd, _MOST, 0).decode(errors="replace")


def frames(text: str) -> list[dict[str, Any]]:
    """Returns the frames of one thread in a dump of faulthandler, the innermost last.

    It is the current thread, if it has a frame of code other than this package's, TVM's and the
    standard library's; or else the first thread that has one, or else the current thread.
    """
    threads: list[tuple[bool, list[dict[str, Any]]]] = []
    for line in text.splitlines():
        thread, frame_line = _THREAD.match(line), _FRAME.match(line)
        if thread:
            threads.append((thread.group(1).startswith("Current") and "C stack" not in line, []))
        elif frame_line and threads:
            file, number = frame_line.group(1), int(frame_line.group(2))
            code = linecache.getline(file, number).strip()
            threads[-1][1].insert(0, frame(file, number, frame_line.group(3), code))
        elif not line.strip():
            continue
    threads.sort(key=lambda thread: not thread[0])
    relevant = [frames for _, frames in threads if any(_is_somebodys(f) for f in frames)]
    return relevant[0] if relevant else threads[0][1] if threads else []


def _is_somebodys(frame: dict[str, Any]) -> bool:
    return not (frame["ours"] or frame["tvm"] or frame["standard"])
