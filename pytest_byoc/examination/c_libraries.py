"""Compiles the C libraries that workers load, and keeps them in the user's cache."""

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

_SOURCES = Path(__file__).parents[1] / "worker"
#: The handler of signals that writes native stacks, and the library that hides files from a process.
NATIVE_STACK, HIDDEN_FILES = "native_stack", "hidden_files"
#: The seconds that the compiler may take.
_COMPILING = 60.0


def compiler() -> str:
    """Returns the C++ compiler named in CXX, or else the first that is installed; "" if none is."""
    return os.environ.get("CXX") or next(filter(shutil.which, ("g++", "clang++", "c++")), "")


@functools.cache
def compiled(name: str) -> str:
    """Returns the path of a compiled library; "" if it can't be compiled.

    name: NATIVE_STACK or HIDDEN_FILES.
    """
    source_path = _SOURCES / f"{name}.c"
    program, source = compiler(), source_path.read_bytes()
    digest = hashlib.sha256(b"\0".join((source, program.encode(), platform.machine().encode())))
    path = cache_folder(name.replace("_", "-")) / f"{digest.hexdigest()[:16]}.so"
    if program and not path.exists():
        # Another session may compile it at the same time, so the file is replaced atomically.
        scratch = tempfile.TemporaryDirectory(dir=path.parent)
        with suppress(OSError, subprocess.SubprocessError), scratch as folder:
            library = os.path.join(folder, "made.so")
            command = [program, "-x", "c", "-O2", "-fPIC", "-shared", "-o", library, str(source_path), "-ldl"]
            subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=_COMPILING, check=True,
            )
            os.replace(library, path)
    return str(path) if path.exists() else ""
