"""Digests of what an export gives to the compiler and the linker, and the files that these read."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..core import files

#: The folders of the system, whose files belong to the compiler.
_SYSTEM = ("/usr/include/", "/usr/lib/", "/lib/")
#: The options by which a linker finds libraries: a folder, or a library's name.
_FOLDER, _NAME = "-L", "-l"


def digest(paths: Iterable[str], options: Sequence[str], more: Mapping[str, Any]) -> str:
    """Returns a digest of the arguments of an `fcompile`: of the files only kinds and contents count."""
    found = hashlib.sha256(repr((list(options), sorted(more.items()))).encode())
    # The order of the modules may be that of addresses.
    parts = sorted((os.path.splitext(path)[1], files.digest(path)) for path in paths)
    found.update(repr(parts).encode())
    return found.hexdigest()


def linked(options: Sequence[str]) -> Iterator[str]:
    """Yields the paths of the files that a linker's options name."""
    folders = [option[2:] for option in _joined(options) if option.startswith(_FOLDER)]
    for option in _joined(options):
        if option.startswith(_NAME):
            for name in ("lib%s.so" % option[2:], "lib%s.a" % option[2:]):
                yield from (p for f in folders if os.path.isfile(p := os.path.join(f, name)))
        elif os.path.isfile(option):
            yield option


def _joined(options: Sequence[str]) -> Iterator[str]:
    """Yields the options, with the next one where a folder or a name is an option of its own."""
    left = iter(options)
    for option in left:
        yield option + next(left, "") if option in (_FOLDER, _NAME) else option


def headers(rule: str) -> list[str]:
    """Returns the headers in a rule for make that a compiler wrote to that file, except the system's."""
    try:
        with open(rule) as file:
            text = file.read()
    except OSError:
        return []
    names = re.split(r"(?<!\\)\s+", text.replace("\\\n", " ").strip())
    paths = [os.path.abspath(name.replace("\\ ", " ")) for name in names[2:]]
    return [path for path in paths if not path.startswith(_SYSTEM)]
