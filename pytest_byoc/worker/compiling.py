"""The C compiler, called once for each source: a graph is exported under several executors and at several
levels, and the vendor's source is the same every time."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import subprocess
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

SOURCES = (".c", ".cc", ".cpp")
#: Files that a source names by absolute paths, and data.
_TAKES_IN = re.compile(rb'#\s*include\s*["<]/|\.incbin|#\s*embed')
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
        #: By what a source is; "": it does not compile.
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
                objects = self._objects_of(objects, cc, options or [])
            self._cc.create_shared(output, list(objects), options, **more)

        # An attribute object_format would have TVM write sources in another way.
        fcompile.output_format = self._cc.create_shared.output_format  # type: ignore[attr-defined]
        fcompile.get_target_triple = self._get_triple  # type: ignore[attr-defined]
        return fcompile

    def _get_triple(self) -> str:
        self._triple = self._triple or self._cc.create_shared.get_target_triple()
        return self._triple

    def _objects_of(self, paths: Sequence[str], cc: str, options: List[str]) -> List[str]:
        """For each file the object made of it where it is a source; any other as it is. As many are compiled
        at once as there are cores."""
        keys = [self._key(path, cc, options) if path.endswith(SOURCES) else () for path in paths]
        running: List[Tuple[Tuple[str, ...], str, subprocess.Popen[bytes]]] = []
        for path, key in zip(paths, keys):
            if not key or key in self._objects:
                continue
            if len(running) == CORES:
                self._wait(*running.pop(0))
            made = os.path.join(self._folder, "source_%d.o" % len(self._objects))
            self._objects[key] = ""
            command = [cc, "-pipe", "-fPIC", "-c", "-o", made, path, *options]
            running.append((key, made, subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )))
        for started in running:
            self._wait(*started)
        return [self._objects.get(key) or path for path, key in zip(paths, keys)]

    def _wait(self, key: Tuple[str, ...], made: str, process: subprocess.Popen[bytes]) -> None:
        self._objects[key] = "" if process.wait() else made

    def _key(self, path: str, cc: str, options: List[str]) -> Tuple[str, ...]:
        with open(path, "rb") as f:
            text = f.read()
        # What it takes in from elsewhere may have changed since.
        elsewhere = path if _TAKES_IN.search(text) else ""
        return (hashlib.sha256(text).hexdigest(), os.path.splitext(path)[1], cc, *options, elsewhere)
