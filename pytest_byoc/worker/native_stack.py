"""Reads the native stacks that `native_stack.c` writes in a crash or on request."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from typing import NamedTuple

#: The compiled signal handler; None where there is none.
_library: ctypes.CDLL | None = None
_HEADER = re.compile(r"^Native stack: signal (\d+)$")
#: The largest number of frames that are reported. Frames of the Python interpreter, and all frames
#: outside of these, are left out.
_FRAMES = 16
_INTERPRETER = re.compile(r"^(lib)?(python|ffi)[\d.-]*")
#: The largest number of characters of a function's name that are reported.
_NAME = 100
#: The time limit of addr2line for one file, in seconds.
_LOOKING_UP = 10.0


class _Frame(NamedTuple):
    """A frame of a native stack.

    file: the file of the code; "?" for an address without code. offset: its offset in the file.
    symbol: "" where the file has none for it.
    """

    file: str
    offset: int
    symbol: str


def load(path: str) -> None:
    """Loads the compiled handler, which is inactive until `install`. path: "" if there is none."""
    global _library
    try:
        _library = ctypes.CDLL(path) if path else None
    except OSError:  # compiled for another machine, or a library that it needs is missing
        _library = None


def install(fd: int, dump: int) -> None:
    """Installs handlers that write this process's native stack to a file at a crash or a signal.

    fd: the file. dump: the signal. In a crash, handlers that were installed before are called after
    them.
    """
    if _library is not None:
        _library.install(fd, dump)


def fatal_signal(line: str) -> int:
    """Returns the signal that the header line of a stack names; 0 for another line."""
    match = _HEADER.match(line)
    return int(match.group(1)) if match else 0


def described(text: str) -> list[str]:
    """Returns the frames in a written text in words, innermost first, up to the interpreter's.

    The files of the code must still exist, since their symbols are read here.
    """
    frames = _read(text)
    outer = [n for n, frame in enumerate(frames) if _INTERPRETER.match(os.path.basename(frame.file))]
    frames = frames[: min([_FRAMES, *outer])]
    by_file: dict[str, list[int]] = {}
    for frame in frames:
        by_file.setdefault(frame.file, []).append(frame.offset)
    known: dict[tuple[str, int], tuple[str, str]] = {}
    for file, offsets in by_file.items():
        for offset, location in zip(offsets, _look_up(file, offsets)):
            known[file, offset] = location
    return [_in_words(frame, *known.get((frame.file, frame.offset), ("", ""))) for frame in frames]


def _read(text: str) -> list[_Frame]:
    """Returns the frames of the last stack in a text, even if it is incomplete."""
    frames: list[_Frame] = []
    for line in text.splitlines():
        if _HEADER.match(line):
            frames = []
        parts = line.split("\t")
        if parts[0] == "native" and len(parts) == 4:
            frames.append(_Frame(parts[1], int(parts[2], 16), parts[3]))
    return frames


def _look_up(file: str, offsets: list[int]) -> list[tuple[str, str]]:
    """Returns function and source line for each offset; [] where addr2line can't tell them."""
    program = shutil.which("addr2line")
    if program is None or not os.path.isfile(file):
        return []
    command = [program, "-C", "-f", "-e", file, *map(hex, offsets)]
    try:
        said = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=_LOOKING_UP, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return []
    lines = said.stdout.decode(errors="replace").splitlines()
    return list(zip(lines[::2], lines[1::2]))


def _in_words(frame: _Frame, function: str, place: str) -> str:
    if frame.file == "?":
        return "address %#x, where there is no code" % frame.offset
    where = "%s+%#x" % (os.path.basename(frame.file), frame.offset)
    source, _, line = place.split(" (")[0].rpartition(":")
    in_source = bool(source.strip("?"))
    if in_source:
        where += ", %s%s" % (os.path.basename(source), "" if line.startswith("?") else ":" + line)
    # For a file without symbols, addr2line names the nearest exported function, which may be wrong.
    name = function if function.strip("?") and (in_source or frame.symbol) else frame.symbol
    name = name if len(name) <= _NAME else name[: _NAME - 1] + "…"
    return "%s (%s)" % (name or "a function without a symbol", where)
