"""Names of targets, as they are shown and as they become names of folders.

Imported by workers too: Python 3.8 and the standard library alone.
"""

from __future__ import annotations

import hashlib

#: Characters of a target's name that the name of its folders keeps: the last ones tell most of a path.
_KEPT = 60


def printable(text: str, keep: str = "") -> str:
    """The text with an escape in the place of each character that would control a terminal, but for those to
    keep."""
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def folder_name(target: str, ir: str) -> str:
    """What the names of a target's folders of failures start with: different for each name of a target. It
    holds a hash of a name that can't be the name of a folder as it stands."""
    fit = "".join(c if c.isalnum() or c in "-_" else "-" for c in target)[-_KEPT:]
    if fit != target:
        fit += "-" + hashlib.sha256(target.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return "%s-%s" % (fit, ir)
