"""Finds OpenVINO, and says how a region is compiled and linked with it."""

from __future__ import annotations

import ctypes
import glob
import importlib.util
import os
import re
from typing import Any, Dict, Tuple

VERSION = (2026, 4)
_REMEDY = (
    "Install it with `pip install 'pytest-byoc[openvino]'`, or set OPENVINO_ROOT to a folder with include "
    "and libs, as the package has."
)


class _Version(ctypes.Structure):
    _fields_ = [("number", ctypes.c_char_p), ("description", ctypes.c_char_p)]


def find() -> str:
    """The path of libopenvino_c. Raises ImportError if there is none, or one that does not fit."""
    root = os.environ.get("OPENVINO_ROOT")
    if not root:
        # The package is not imported: it would start a thread that sends what it calls telemetry.
        spec = importlib.util.find_spec("openvino")
        root = os.path.dirname(spec.origin) if spec is not None and spec.origin else ""
    paths = sorted(glob.glob(os.path.join(root, "libs", "libopenvino_c.so*"))) if root else []
    if not paths:
        raise ImportError(f"example_openvino: there is no OpenVINO {f'in {root}' if root else ''}. {_REMEDY}")
    path = paths[-1]
    if not os.path.exists(os.path.join(root, "include", "openvino", "c", "openvino.h")):
        raise ImportError(f"example_openvino: there are no headers beside {path}. {_REMEDY}")
    try:
        found = version(path)
    except (OSError, AttributeError) as error:
        raise ImportError(f"example_openvino: {path} is no OpenVINO: {error}. {_REMEDY}") from None
    if found < VERSION:
        raise ImportError(
            f"example_openvino: {path} is OpenVINO {'.'.join(map(str, found))}; it needs "
            f"{'.'.join(map(str, VERSION))} or later. {_REMEDY}"
        )
    return path


def version(path: str) -> Tuple[int, ...]:
    """The year and the number of the release."""
    library, found = ctypes.CDLL(path), _Version()
    library.ov_get_openvino_version(ctypes.byref(found))
    numbers = re.findall(r"\d+", (found.number or b"").decode())
    library.ov_version_free(ctypes.byref(found))
    return tuple(int(number) for number in numbers[:2])


def export_options(path: str) -> Dict[str, Any]:
    """The keyword arguments of TVM's `export_library`."""
    lib, name = os.path.split(path)
    include = os.path.join(os.path.dirname(lib), "include")
    options = ["-O1", "-std=gnu11", "-pthread", "-I" + include, "-L" + lib]
    # TVM 0.27 names the options before the objects, which would leave out the library as not needed.
    # With -z now a function that the library lacks is an error when the artifact is loaded.
    options += ["-Wl,--no-as-needed", "-l:" + name, "-Wl,--as-needed", "-Wl,-z,now", "-Wl,-rpath," + lib]
    return {"cc": "gcc", "options": options}
