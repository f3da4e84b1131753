"""Compiles the signal handler that writes native stacks, and keeps it in the user's cache."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from ..storage.cache import cache_folder

_SOURCE = Path(__file__).parents[1] / "worker" / "native_stack.c"
#: The seconds that the compiler may take.
_COMPILING = 60.0


def compiler() -> str:
    """Returns the C++ compiler named in CXX, or else the first that is installed; "" if none is."""
    return os.environ.get("CXX") or next(filter(shutil.which, ("g++", "clang++", "c++")), "")


@functools.cache
def compiled() -> str:
    """Returns the path of the compiled handler; "" if it can't be compiled.

    Reports have no native stacks then.
    """
    program, source = compiler(), _SOURCE.read_bytes()
    digest = hashlib.sha256(b"\0".join((source, program.encode(), platform.machine().encode())))
    path = cache_folder("native-stack") / f"{digest.hexdigest()[:16]}.so"
    if program and not path.exists():
        # Another session may compile it at the same time, so the file is replaced atomically.
        scratch = tempfile.TemporaryDirectory(dir=path.parent)
        with suppress(OSError, subprocess.SubprocessError), scratch as folder:
            library = os.path.join(folder, "made.so")
            command = [program, "-x", "c", "-O1", "-fPIC", "-shared", "-o", library, str(_SOURCE), "-ldl"]
            subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=_COMPILING, check=True,
            )
            os.replace(library, path)
    return str(path) if path.exists() else ""
