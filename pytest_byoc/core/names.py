"""Makes names of targets printable, turns them into names of folders, and names signals.

Workers import this file too: it uses only Python 3.8 and the standard library.
"""

from __future__ import annotations

import hashlib
import signal

#: The number of characters of a target's name that the names of its folders keep. The last ones are
#: kept, since they say most where the name is a path.
_KEPT = 60


def printable(text: str, keep: str = "") -> str:
    """Returns the text with unprintable characters, which could control a terminal, escaped.

    keep: unprintable characters that stay.
    """
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def folder_name(target: str, ir: str) -> str:
    """Returns the beginning of the names of a target's failure folders, one for each target and IR.

    Where the target's name can't be used in a folder's name unchanged, a hash of it is appended.
    """
    fit = "".join(c if c.isalnum() or c in "-_" else "-" for c in target)[-_KEPT:]
    if fit != target:
        fit += "-" + hashlib.sha256(target.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return "%s-%s" % (fit, ir)


def signal_name(number: int) -> str:
    """Returns the name of a signal, such as SIGSEGV."""
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return "signal %d" % number
