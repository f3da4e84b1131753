"""The library behind the kernels: how it is found, checked, linked and, where it is missing, named."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from typing import Any, Dict, List

#: The C sources that are compiled into each artifact. A library that comes as source is listed here.
SOURCES = ("kernels.c",)
#: The environment variable that names another CBLAS than the OpenBLAS of the system.
VARIABLE = "EXAMPLE_EXTERN_CBLAS"
#: The functions that the kernels call, by dtype. The dtypes that are offloaded are its keys.
SYMBOLS = {"float32": "cblas_sgemm", "float64": "cblas_dgemm"}
SUFFIXES = {"float32": "f32", "float64": "f64"}
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


def sources() -> List[str]:
    """The text of each source, with the kernels of all dtypes in it."""
    texts = []
    for name in SOURCES:
        with open(os.path.join(os.path.dirname(__file__), name)) as f:
            text = f.read()
        names: Dict[str, str] = {"_f32": "_f64", "float": "double", "cblas_sgemm": "cblas_dgemm"}
        for_float64 = text
        for old, new in names.items():
            for_float64 = for_float64.replace(old, new)
        texts += [text, for_float64]
    return texts


def modules(create: Any) -> List[Any]:
    """Runtime modules of the sources; create: TVM's ``runtime.CSourceModuleCreate``."""
    return [create(text, "c", ["example_extern_source_%d" % i], []) for i, text in enumerate(sources())]
