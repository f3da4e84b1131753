"""The library behind the kernels: how it is found, checked, linked, and named where it is missing."""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
import os
import subprocess
from typing import List, Sequence

#: The C sources that are linked into each artifact. A library that comes as source is listed here.
SOURCES = ("kernels.c",)
#: The environment variable that names another CBLAS than the system's OpenBLAS.
VARIABLE = "EXAMPLE_EXTERN_CBLAS"
#: The function that the kernels call, by dtype; the dtypes that are offloaded.
SYMBOLS = {"float32": "cblas_sgemm", "float64": "cblas_dgemm"}
#: What makes the kernels for float64 from those for float32.
_FOR_FLOAT64 = {"_f32": "_f64", "float": "double", "cblas_sgemm": "cblas_dgemm"}
_REMEDY = "install OpenBLAS (apt-get install libopenblas-dev), or name a CBLAS by %s=PATH" % VARIABLE


def missing(symbol: str) -> str:
    """The error of an artifact that runs where nobody supplies a function of the library."""
    return (
        "example_extern: %s is missing. Link its library into the artifact when it is exported, load the "
        "library with RTLD_GLOBAL before the artifact, or compile its source into the artifact" % symbol
    )


def find() -> str:
    """The name or path of a CBLAS that the kernels can call. Raises ImportError if there is none."""
    path = os.environ.get(VARIABLE) or ctypes.util.find_library("openblas")
    if not path:
        raise ImportError("example_extern finds no OpenBLAS: " + _REMEDY)
    try:
        library = ctypes.CDLL(path)
    except OSError as e:
        raise ImportError("example_extern cannot load %s (%s): %s" % (path, e, _REMEDY)) from None
    absent = [symbol for symbol in SYMBOLS.values() if not hasattr(library, symbol)]
    if absent:
        raise ImportError("example_extern: %s has no %s: %s" % (path, " and no ".join(absent), _REMEDY))
    if hasattr(library, "openblas_get_config"):
        library.openblas_get_config.restype = ctypes.c_char_p
        config = library.openblas_get_config().decode()
        if "USE64BITINT" in config:
            raise ImportError(
                "example_extern: %s (%s) takes 64-bit integers, the kernels pass 32-bit ones: %s"
                % (path, config.strip(), _REMEDY)
            )
    return path


def link_options(path: str) -> List[str]:
    """The compiler's options that link an artifact with the library.

    A weak reference alone would not make a linker keep the library (``--as-needed``), nor take the
    function from a static one, for which ``-Wl,-u,cblas_sgemm`` is needed in addition.
    """
    if os.sep in path:
        return ["-Wl,--no-as-needed", path, "-Wl,-rpath," + os.path.dirname(os.path.abspath(path))]
    return ["-Wl,--no-as-needed", "-l:" + path]


def kernels() -> str:
    """The path of the object with the kernels of all dtypes.

    It is linked with the artifact, and not among the modules that TVM imports (``external_mods``):
    with such modules Relay's build stores all weights of main a second time.
    """
    text = ""
    for name in SOURCES:
        with open(os.path.join(os.path.dirname(__file__), name)) as f:
            text += f.read()
    for_float64 = text
    for old, new in _FOR_FLOAT64.items():
        for_float64 = for_float64.replace(old, new)
    return compiled(text + for_float64, ".o", ["-c", "-O2"])


def compiled(text: str, ending: str, options: Sequence[str]) -> str:
    """The path of a compiled source. It is compiled once, and kept in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    key = hashlib.sha256("\n".join([text, *options]).encode()).hexdigest()[:24]
    path = os.path.join(cache, "example_extern", key + ending)
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        unfinished = "%s.%d" % (path, os.getpid())
        command = ["g++", "-x", "c++", "-", "-fPIC", *options, "-o", unfinished]
        try:
            done = subprocess.run(command, input=text, stderr=subprocess.PIPE, text=True)
        except FileNotFoundError:
            raise ImportError("example_extern needs g++, and finds none") from None
        if done.returncode:
            raise ImportError("example_extern: g++ does not compile its source:\n" + done.stderr[-2000:])
        os.replace(unfinished, path)  # another process may do the same
    return path
