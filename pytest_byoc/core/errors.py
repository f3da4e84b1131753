"""Errors that a worker tells the host of, as data."""

from __future__ import annotations

import os
import sysconfig
import traceback
from typing import Any

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_EXAMPLES = os.path.join(_OURS, "examples")
_STANDARD = tuple({os.path.abspath(sysconfig.get_paths()[k]) for k in ("stdlib", "platstdlib")})


def frame(file: str, line: int, function: str, text: str) -> dict[str, Any]:
    """A frame of Python's as data, with whose it is. Those of no file (<unknown>) are C++ functions of TVM's
    that its exceptions bring along."""
    path = os.path.abspath(file)
    packages = os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep
    standard = file.startswith("<frozen ") or any(path.startswith(s + os.sep) for s in _STANDARD)
    return {
        "file": file,
        "line": line,
        "function": function,
        "text": text,
        "ours": path.startswith(_OURS + os.sep) and not path.startswith(_EXAMPLES + os.sep),
        "tvm": file == "<unknown>" or os.sep + "tvm" + os.sep in path or os.sep + "tvm_ffi" + os.sep in path,
        "standard": standard and not any(p in path for p in packages),
    }


class Failure(Exception):
    """A failure to be reported to the user as it stands, without a traceback."""


class NotAModule(TypeError):
    """What a partition function returned is no IRModule."""


class MainLost(TypeError):
    """A partition function returned a module without main, or whose main has another type."""


def describe_exception(error: BaseException) -> dict[str, Any]:
    """Type, message and frames of an exception, as data; frames as in `frame`."""
    frames = [
        frame(f.filename, f.lineno or 0, f.name, f.line or "")
        for f in traceback.extract_tb(error.__traceback__)
    ]
    return {"type": type(error).__name__, "message": _message(error)[-4000:], "frames": frames}


def _message(error: BaseException) -> str:
    """What an exception says of itself. It may be a vendor's, and fail at that."""
    try:
        if isinstance(error, SyntaxError):
            return "%s (%s, line %s)" % (error.msg, error.filename, error.lineno)
        return str(error)
    except BaseException as e:
        return "(the exception has no text: %s raised in its __str__)" % type(e).__name__
