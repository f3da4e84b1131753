"""The micro-kernel, compiled: into an object, a shared library, or LLVM IR."""

from __future__ import annotations

import hashlib
import os
import subprocess
from typing import List

#: The function that tensorised loops call.
SYMBOL = "example_tensorize_gemm"
#: The tile that one call computes.
ROWS, COLUMNS, DEPTH = 4, 8, 8
_SOURCE = os.path.join(os.path.dirname(__file__), "microkernel.c")


def linkable() -> str:
    """The path of an object that is linked into artifacts."""
    return _compiled("g++", "hidden", ".o", ["-c"])


def loadable() -> str:
    """The path of a library that a process loads with RTLD_GLOBAL before an artifact."""
    return _compiled("g++", "default", ".so", ["-shared"])


def bitcode() -> str:
    """The path of LLVM IR that TVM compiles into a function which calls the micro-kernel."""
    return _compiled("clang", "hidden", ".bc", ["-c", "-emit-llvm"])


def clang_version() -> int:
    """The major version of clang. Raises ImportError if there is no clang."""
    return int(_run(["clang", "-dumpversion"]).split(".")[0])


def _compiled(compiler: str, visibility: str, ending: str, options: List[str]) -> str:
    """The path of the compiled source. It is compiled once, and kept in the user's cache."""
    macros = {"ROWS": ROWS, "COLUMNS": COLUMNS, "DEPTH": DEPTH, "VISIBILITY": f'"{visibility}"'}
    defined = [f"-D{name}={value}" for name, value in macros.items()]
    command = [compiler, "-x", "c", "-O2", "-fPIC", *defined, *options, _SOURCE]
    with open(_SOURCE) as f:
        key = hashlib.sha256("\n".join([*command, f.read()]).encode()).hexdigest()[:24]
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = os.path.join(cache, "example_tensorize", key + ending)
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        unfinished = "%s.%d" % (path, os.getpid())
        _run([*command, "-o", unfinished])
        os.replace(unfinished, path)  # another process may do the same
    return path


def _run(command: List[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise ImportError(
            f"example_tensorize needs {command[0]}, and finds none: install it (apt-get install {command[0]})"
        ) from None
    if done.returncode:
        raise ImportError(f"example_tensorize: {command[0]} fails:\n{done.stderr[-2000:]}")
    return done.stdout
