"""The output and the stacks of a process as lines of a failure's text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

#: A frame of our worker as faulthandler prints it.
_OURS = re.compile(r'  File ".*/pytest_byoc/(?!examples/)[^"]*", line \d+ in ')
#: A native frame of the interpreter, of the start of the process, or of signal handling, as TVM
#: prints it.
_INTERPRETERS = re.compile(
    r'  File "(?:\./|.*/Python-3[^/]*/)?(?:Python|Modules|Objects|Include)/[^"]*", line \d+, in |'
    r'  File "[^"]*", line 0, in (?:_start|__libc_start_main\S*|0x[0-9a-f]+)$|'
    r'  File "[^"]*/(?:nptl/pthread_kill|sysdeps/posix/raise)\.c", line \d+, in '
)
#: The first line of the stack that TVM prints when it receives SIGSEGV.
_NATIVE = "Segfault encountered"
#: The folders in which TVM's Python calls its C++.
_FFI = re.compile(r"[/\\](_ffi|tvm_ffi)[/\\]")
#: The folders in which TVM keeps its code for single targets.
_BACKENDS = re.compile(r"[/\\](contrib|backend)[/\\]")
#: Largest number of printed lines and of stack frames that a text shows.
_LINES, _FRAMES = 15, 12


def printed_lines(details: Mapping[str, object]) -> list[str]:
    """Returns the last lines that the process printed, for a failure's text. If TVM printed a
    native stack and the worker recorded none, its innermost frames follow, without the
    interpreter's."""
    printed = str(details.get("printed") or "").strip("\n").splitlines()
    begin = next((n for n, line in enumerate(printed) if _NATIVE in line), len(printed))
    printed, native = printed[:begin], printed[begin + 1 :]
    frames = [line for line in native if line.startswith("  File ") and not _INTERPRETERS.match(line)]
    printed += [line for line in native if not line.startswith("  File ")]
    printed = [
        line for line in printed
        if not (_OURS.match(line) or _INTERPRETERS.match(line) or line.startswith("Extension modules:"))
    ]
    while printed and not printed[-1].strip():
        printed.pop()
    lines = []
    if printed:
        lines += ["", "the process printed (its last lines):", *_quoted(printed[-_LINES:])]
    if frames and not details.get("native"):
        lines += ["", "the native stack, as TVM tells it, innermost first:", *_quoted(frames[:_FRAMES])]
    return lines


def stack_lines(details: Mapping[str, Any]) -> list[str]:
    """Returns the native stack of a process that crashed or hung, then Python's stack without
    frames of pytest-byoc, as lines of a failure's text."""
    lines = []
    native = details.get("native") or ()
    if native:
        lines += ["", "the native stack at that moment, innermost first:", *_quoted(native[:_FRAMES])]
    frames = [f for f in reversed(details.get("frames") or ()) if not f["ours"]]
    if frames:
        shown = [f"{f['file']}:{f['line']}, in {f['function']}" for f in frames[:_FRAMES]]
        lines += ["", "Python's stack at that moment, innermost first:", *_quoted(shown)]
    return lines


def _quoted(lines: Sequence[str]) -> list[str]:
    return ["  | " + line for line in lines]


def vendor_frame(frames: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Returns the innermost frame outside of pytest-byoc, TVM and the import system; a frame of
    Python's standard library only if there is no other; None if there is none at all."""
    theirs = [f for f in frames if not (f["ours"] or f["tvm"] or "importlib" in f["file"])]
    own = [f for f in theirs if not f.get("standard")]
    return own[-1] if own else theirs[-1] if theirs else None


def raising_frame(frames: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Returns the vendor's frame, or else the innermost frame of TVM's Python code, whose partition
    functions may raise too. Frames of TVM's backends are preferred to its other code."""
    of_tvm = [f for f in frames if f["tvm"] and f["file"].endswith(".py") and not _FFI.search(f["file"])]
    of_backends = [f for f in of_tvm if _BACKENDS.search(f["file"])]
    return vendor_frame(frames) or next(reversed(of_backends or of_tvm), None)
