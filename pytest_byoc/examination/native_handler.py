"""Compiles the handler that writes native stacks, which is kept in the user's cache."""

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
#: Seconds that the compiler may take.
_COMPILING = 60.0


def compiler() -> str:
    """The C++ compiler's name: that in CXX, or else the first that is installed; "" where there is none."""
    return os.environ.get("CXX") or next(filter(shutil.which, ("g++", "clang++", "c++")), "")


@functools.cache
def compiled() -> str:
    """The path of the compiled handler; "" where no compiler makes one: there are no native stacks then."""
    program, source = compiler(), _SOURCE.read_bytes()
    digest = hashlib.sha256(b"\0".join((source, program.encode(), platform.machine().encode())))
    path = cache_folder("native-stack") / f"{digest.hexdigest()[:16]}.so"
    if program and not path.exists():
        # Another session may do so at the same time.
        scratch = tempfile.TemporaryDirectory(dir=path.parent)
        with suppress(OSError, subprocess.SubprocessError), scratch as folder:
            made = os.path.join(folder, "made.so")
            command = [program, "-x", "c", "-O1", "-fPIC", "-shared", "-o", made, str(_SOURCE), "-ldl"]
            subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=_COMPILING, check=True,
            )
            os.replace(made, path)
    return str(path) if path.exists() else ""
