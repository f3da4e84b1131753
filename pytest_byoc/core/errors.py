"""Exceptions of workers as JSON-able data for the host, and exceptions that both sides use."""

from __future__ import annotations

import os
import sysconfig
import traceback
from typing import Any

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_EXAMPLES = os.path.join(_OURS, "examples")
_STANDARD = tuple({os.path.abspath(sysconfig.get_paths()[k]) for k in ("stdlib", "platstdlib")})


def frame(file: str, line: int, function: str, text: str) -> dict[str, Any]:
    """Returns a Python stack frame as data, with three flags that say whose code it is.

    "ours": this package's, without its examples; "tvm": TVM's; "standard": the standard library's.
    Frames with the file <unknown> are C++ functions that TVM's exceptions list in their traceback.
    """
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
    """An error whose message is shown to the user as it is, without a traceback."""


class NotAModule(TypeError):
    """Raised where a vendor's partition or build function returned an object of the wrong type."""


class MainLost(TypeError):
    """Raised where a partition function returned a module without main, or changed main's type."""


def describe_exception(error: BaseException) -> dict[str, Any]:
    """Returns type, message (its last 4000 characters) and frames (see `frame`) as data."""
    frames = [
        frame(f.filename, f.lineno or 0, f.name, f.line or "")
        for f in traceback.extract_tb(error.__traceback__)
    ]
    return {"type": type(error).__name__, "message": _message(error)[-4000:], "frames": frames}


def _message(error: BaseException) -> str:
    """Returns the text of an exception. A vendor's exception may itself raise in its `__str__`."""
    try:
        if isinstance(error, SyntaxError):
            return "%s (%s, line %s)" % (error.msg, error.filename, error.lineno)
        return str(error)
    except BaseException as e:
        return "(the exception has no text: %s raised in its __str__)" % type(e).__name__
