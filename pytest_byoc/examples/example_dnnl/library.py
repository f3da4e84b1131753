"""Finds oneDNN, and says how a region is compiled and linked with it."""

from __future__ import annotations

import ctypes
import os
import site
import sys
from typing import Any, Dict

VERSION = (3, 2)
_REMEDY = (
    "Install it with `pip install 'pytest-byoc[dnnl]'`, or set ONEDNN_ROOT to a folder with include and lib."
)


class _Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_int), ("minor", ctypes.c_int), ("patch", ctypes.c_int)]


def find() -> str:
    """The path of libdnnl. Raises ImportError if there is none, or one that does not fit."""
    given = os.environ.get("ONEDNN_ROOT")
    folders = [given] if given else [sys.prefix, site.getuserbase(), "/usr/local", "/usr"]
    paths = [os.path.join(folder, "lib", "libdnnl.so.3") for folder in folders]
    path = next((path for path in paths if os.path.exists(path)), "")
    if not path:
        raise ImportError(f"example_dnnl: there is no oneDNN ({', '.join(paths)}). {_REMEDY}")
    if not os.path.exists(os.path.join(_root(path), "include", "oneapi", "dnnl", "dnnl.h")):
        raise ImportError(f"example_dnnl: there are no headers beside {path}. {_REMEDY}")
    try:
        version = ctypes.CDLL(path).dnnl_version
    except (OSError, AttributeError) as error:
        raise ImportError(f"example_dnnl: {path} is no oneDNN: {error}. {_REMEDY}") from None
    version.restype = ctypes.POINTER(_Version)
    found = version().contents
    if found.major != VERSION[0] or found.minor < VERSION[1]:
        raise ImportError(
            f"example_dnnl: {path} is oneDNN {found.major}.{found.minor}.{found.patch}; it needs "
            f"{VERSION[0]}.{VERSION[1]} or a later {VERSION[0]}. {_REMEDY}"
        )
    return path


def has_exact_int8() -> bool:
    """Whether the CPU has VNNI. Without it oneDNN may saturate sums of two products of int8 in 16 bits
    (its developer guide, "Nuances of int8 Computations")."""
    isa = ctypes.CDLL(find()).dnnl_get_effective_cpu_isa()
    return bool(isa & (_AVX2_VNNI | _AVX512_VNNI))


# Bits of the values that dnnl_cpu_isa_avx2_vnni and dnnl_cpu_isa_avx512_core_vnni add to their parts.
_AVX2_VNNI, _AVX512_VNNI = 0x08, 0x40


def _root(path: str) -> str:
    return os.path.dirname(os.path.dirname(path))


def export_options(path: str) -> Dict[str, Any]:
    """The keyword arguments of TVM's `export_library`."""
    lib = os.path.dirname(path)
    options = ["-O1", "-std=gnu11", "-pthread", "-I" + os.path.join(_root(path), "include"), "-L" + lib]
    # TVM 0.27 names the options before the objects, which would leave out the library as not needed.
    # With -z now a function that the library lacks is an error when the artifact is loaded.
    options += ["-Wl,--no-as-needed", "-ldnnl", "-Wl,--as-needed", "-Wl,-z,now", "-Wl,-rpath," + lib]
    return {"cc": "gcc", "options": options}
