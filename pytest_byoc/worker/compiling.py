"""The C compiler, called once for each source: a graph is exported under several executors and at several
levels, and the vendor's source is the same every time."""

from __future__ import annotations

import hashlib
import importlib
import os
import subprocess
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

SOURCES = (".c", ".cc", ".cpp")


def _tvm_cc() -> Any:
    """TVM's module of compilers; it has moved."""
    try:
        return importlib.import_module("tvm.support.cc")
    except ImportError:
        return importlib.import_module("tvm.contrib.cc")


class Compiler:
    """What `export_library` takes as `fcompile`: its own `create_shared`, with the objects made of sources
    kept in a folder. A source that does not compile is left to TVM, whose message users know."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._objects: Dict[Tuple[str, ...], str] = {}
        self._cc = _tvm_cc()
        self._triple = ""

    def options(self, path: str, given: Mapping[str, Any]) -> Dict[str, Any]:
        """Keyword arguments of `export_library` to that path. Whoever names a function that compiles, or
        exports something else than a shared library, is left alone."""
        found = dict(given)
        if path.endswith(".so") and not found.get("fcompile"):
            found["fcompile"] = self._function()
        return found

    def _function(self) -> Any:
        def fcompile(
            output: str, objects: Sequence[str], options: Optional[List[str]] = None, **more: Any
        ) -> None:
            cc = more.get("cc") or self._cc.get_cc()
            if cc != "nvcc" and not more.get("cwd") and not more.get("ccache_env"):
                objects = [self._object(o, cc, options or []) for o in objects]
            self._cc.create_shared(output, list(objects), options, **more)

        # An attribute object_format would have TVM write sources in another way.
        fcompile.output_format = self._cc.create_shared.output_format  # type: ignore[attr-defined]
        fcompile.get_target_triple = self._get_triple  # type: ignore[attr-defined]
        return fcompile

    def _get_triple(self) -> str:
        self._triple = self._triple or self._cc.create_shared.get_target_triple()
        return self._triple

    def _object(self, path: str, cc: str, options: List[str]) -> str:
        """Path of the object of a source; any other file as it is."""
        if not path.endswith(SOURCES):
            return path
        with open(path, "rb") as f:
            key = (hashlib.sha256(f.read()).hexdigest(), os.path.splitext(path)[1], cc, *options)
        if key not in self._objects:
            made = os.path.join(self._folder, "source_%d.o" % len(self._objects))
            done = subprocess.run(
                [cc, "-pipe", "-fPIC", "-c", "-o", made, path, *options],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            self._objects[key] = path if done.returncode else made
        return self._objects[key]
