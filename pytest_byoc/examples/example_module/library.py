"""The two libraries of example_module: how they are built by CMake, found, checked and loaded."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Dict, Tuple

#: The version of the libraries that the Python code needs; it is that of the artifacts' format too.
VERSION = 1
#: The environment variable that names a folder with libraries that are already built.
VARIABLE = "EXAMPLE_MODULE_LIBRARIES"
_HERE = os.path.dirname(os.path.abspath(__file__))
_NAMES = ("libexample_module.so", "libexample_module_runtime.so")
_FUNCTIONS = ("version", "supports", "FoldTransposes")
_REMEDY = "Install CMake with `pip install 'pytest-byoc[module]'`, and a compiler of C++17."


def find() -> Tuple[str, str]:
    """The paths of the compiler's library and of the runtime's, which are built at the first call.

    Raises ImportError, with a remedy, where they are missing or cannot be built.
    """
    folder = os.environ.get(VARIABLE) or _built()
    paths = [os.path.join(folder, name) for name in _NAMES]
    for path in paths:
        if not os.path.exists(path):
            raise ImportError(f"example_module: there is no {path}. {_rebuild(path)}")
    return paths[0], paths[1]


def load(path: str) -> Dict[str, Any]:
    """Loads the compiler's library, before TVM or after it, and returns its functions by name.

    Raises ImportError for a library that does not load, of another version, or without a function.
    """
    try:
        ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    except OSError as e:
        raise ImportError(f"example_module: {path} does not load: {e}. {_rebuild(path)}") from None
    import tvm

    functions = {name: tvm.get_global_func(f"example_module.{name}", True) for name in _FUNCTIONS}
    for name, function in functions.items():
        if function is None:
            raise ImportError(f"example_module: {path} has no function {name}. {_rebuild(path)}")
    version = functions["version"]()
    if version != VERSION:
        raise ImportError(f"example_module: {path} has version {version}, not {VERSION}. {_rebuild(path)}")
    return functions


def _rebuild(path: str) -> str:
    return f"Build it again, or unset {VARIABLE}, or delete {os.path.dirname(path)}."


def _built() -> str:
    """The folder of libraries built against this interpreter's TVM, in the user's cache."""
    spec = importlib.util.find_spec("tvm")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("example_module: this interpreter has no TVM")
    root = next(iter(spec.submodule_search_locations))
    digest = hashlib.sha256(f"{sys.executable} {root} {os.path.getmtime(root)}".encode())
    for name in sorted(os.listdir(_HERE)):
        if name.endswith((".cc", ".h", ".txt")):
            with open(os.path.join(_HERE, name), "rb") as f:
                digest.update(f.read())
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(cache, "example_module", digest.hexdigest()[:24])
    if os.path.isdir(folder):
        return folder
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # others wait for the process that builds
        if not os.path.isdir(folder):
            with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as build:
                _run("cmake", "-S", _HERE, "-B", build, f"-DPython_EXECUTABLE={sys.executable}")
                _run("cmake", "--build", build, "--parallel", str(os.cpu_count() or 1))
                result = os.path.join(build, "libraries")
                os.mkdir(result)
                for name in _NAMES:
                    shutil.copy(os.path.join(build, name), result)
                os.rename(result, folder)
    return folder


def _run(*command: str) -> None:
    # pip puts CMake beside the interpreter.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), os.path.dirname(sys.executable)])
    program = shutil.which(command[0], path=path)
    if program is None:
        raise ImportError(f"example_module: there is no {command[0]}. {_REMEDY}")
    done = subprocess.run(
        [program, *command[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        raise ImportError(f"example_module: {' '.join(command)} fails. {_REMEDY}\n{done.stdout[-3000:]}")
