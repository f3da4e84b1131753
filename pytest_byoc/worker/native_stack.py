"""The native stack of a job's process, written by `native_stack.c` where it crashes or is told to."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from typing import NamedTuple

#: The compiled handler; None where there is none.
_library: ctypes.CDLL | None = None
_HEADER = re.compile(r"^Native stack: signal (\d+)$")
#: Frames that are told. Those of the interpreter, and what is further out than it, tell nothing.
_FRAMES = 16
_INTERPRETER = re.compile(r"^(lib)?(python|ffi)[\d.-]*")
#: Characters of a function's name that are told.
_NAME = 100
#: Seconds that addr2line may take for one file.
_LOOKING_UP = 10.0


class _Frame(NamedTuple):
    """file: of the code; "?" where that is none of the process's. offset: in the file. symbol: "" where the
    file names none."""

    file: str
    offset: int
    symbol: str


def load(path: str) -> None:
    """Loads the compiled handler, which does nothing until `install`. path: "" where there is none."""
    global _library
    try:
        _library = ctypes.CDLL(path) if path else None
    except OSError:  # of another machine, or without what a handler needs
        _library = None


def install(fd: int, dump: int) -> None:
    """Has the native stack of this process written to a file where it crashes, and at a signal, before what
    handlers there are until now write."""
    if _library is not None:
        _library.install(fd, dump)


def fatal_signal(line: str) -> int:
    """The signal that a line says has come; 0 where it says nothing of that."""
    found = _HEADER.match(line)
    return int(found.group(1)) if found else 0


def described(text: str) -> list[str]:
    """Frames of what was written, in words, innermost first, up to those of the interpreter. The files have
    to be there still."""
    frames = _read(text)
    outer = [n for n, frame in enumerate(frames) if _INTERPRETER.match(os.path.basename(frame.file))]
    frames = frames[: min([_FRAMES, *outer])]
    by_file: dict[str, list[int]] = {}
    for frame in frames:
        by_file.setdefault(frame.file, []).append(frame.offset)
    known: dict[tuple[str, int], tuple[str, str]] = {}
    for file, offsets in by_file.items():
        for offset, found in zip(offsets, _look_up(file, offsets)):
            known[file, offset] = found
    return [_in_words(frame, *known.get((frame.file, frame.offset), ("", ""))) for frame in frames]


def _read(text: str) -> list[_Frame]:
    """The frames of the last stack that was written whole or in part."""
    frames: list[_Frame] = []
    for line in text.splitlines():
        if _HEADER.match(line):
            frames = []
        parts = line.split("\t")
        if parts[0] == "native" and len(parts) == 4:
            frames.append(_Frame(parts[1], int(parts[2], 16), parts[3]))
    return frames


def _look_up(file: str, offsets: list[int]) -> list[tuple[str, str]]:
    """Function and place in the source for each offset; none where nothing can tell."""
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
    # Of a file without symbols addr2line names the nearest function of those that it exports.
    name = function if function.strip("?") and (in_source or frame.symbol) else frame.symbol
    name = name if len(name) <= _NAME else name[: _NAME - 1] + "…"
    return "%s (%s)" % (name or "a function without a symbol", where)
