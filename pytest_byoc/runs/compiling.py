"""Calls the C compiler once for each source of a job, or once for all sources.

A graph is exported for several executors and at several levels, each time with the same sources.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from ..ir.machine import MACHINE
from . import export_digest

SOURCES = (".c", ".cc", ".cpp")
#: Directives that include a file by its absolute path, or binary data.
_TAKES_IN = re.compile(rb'#\s*include\s*["<]/|\.incbin|#\s*embed')
#: Directives by which one source could change the meaning of the next one.
_LEAKS = re.compile(rb"^\s*(#|%:|\?\?=)(?!\s*(include\b|ifdef\s+__cplusplus\b|endif\b))", re.MULTILINE)
_INCLUDES = re.compile(rb"^\s*#\s*include\b(.*)$", re.MULTILINE)
#: A source without code, as TVM writes it.
_NOTHING = b";"
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _tvm_cc() -> Any:
    """Returns TVM's module of compilers, which has moved between versions."""
    try:
        return importlib.import_module("tvm.support.cc")
    except ImportError:
        return importlib.import_module("tvm.contrib.cc")


@functools.lru_cache(maxsize=None)
def triple_here() -> str:
    """Returns the triple for which the compiler compiles, which it is asked for once.

    A worker asks before it forks, since each export needs it.
    """
    return str(_tvm_cc().create_shared.get_target_triple())


class Compiler:
    """A provider of an `fcompile` for `export_library` that keeps the objects of sources in a folder.

    It compiles for the device, if there is one (`MACHINE`), and calls TVM's `create_shared` with the
    objects in place of the sources. A source that does not compile is left to TVM, whose message users
    know.

    as_one: compiles C++ sources as one that have the same includes and no other directives, since the
    start of the compiler takes most of the time of a small source. If that does not compile (two may
    define the same name), each source is compiled by itself. Sources without code never are.
    watches: keeps `given` and `read`.
    """

    def __init__(self, folder: str, as_one: bool = False, watches: bool = False) -> None:
        self._folder = folder
        self._as_one = as_one
        self._watches = watches
        #: The digest of what was given to make a library (`export_digest`), by the library's path.
        self.given: dict[str, str] = {}
        #: The files beside these that the compiler and the linker have read, except the system's.
        self.read: set[str] = set()
        #: Paths of object files by `_key` of the source; "": the source does not compile.
        self._objects: dict[tuple[str, ...], str] = {}
        self._cc = _tvm_cc()

    def options(self, path: str, given: Mapping[str, Any], makes: bool = True) -> dict[str, Any]:
        """Returns the keyword arguments of `export_library` for that path.

        They stay unchanged where they have an `fcompile`, or where the file is not a shared
        library. makes: whether the library is made; otherwise only the digest of it is.
        """
        options = dict(given)
        if path.endswith(".so") and not options.get("fcompile"):
            options["fcompile"] = self._function(makes)
        return options

    def _function(self, makes: bool) -> Any:
        def fcompile(
            output: str, objects: Sequence[str], options: list[str] | None = None, **more: Any
        ) -> None:
            if MACHINE.cc and not more.get("cc"):
                more["cc"], options = MACHINE.cc[0], [*MACHINE.cc[1:], *(options or [])]
            cc = more.get("cc") or self._cc.get_cc()
            if self._watches:
                self.given[output] = export_digest.digest(objects, options or [], more)
                self.read.update(export_digest.linked(options or []))
            if not makes:
                return
            if cc != "nvcc" and not more.get("cwd") and not more.get("ccache_env"):
                objects = self._objects_of(objects, cc, options or [])
            self._cc.create_shared(output, list(objects), options, **more)

        # The attribute object_format is not copied: TVM would write sources in another way.
        fcompile.output_format = self._cc.create_shared.output_format  # type: ignore[attr-defined]
        fcompile.get_target_triple = self._get_triple  # type: ignore[attr-defined]
        return fcompile

    @staticmethod
    def _get_triple() -> str:
        # Without the device's, TVM makes the object that holds its modules for this machine.
        return str(MACHINE.device.get("mtriple") or triple_here())

    def _objects_of(self, paths: Sequence[str], cc: str, options: list[str]) -> list[str]:
        """Compiles the sources among the files, and returns the files with objects in their place."""
        return self._objects_of_each(self._joined(paths, cc, options), cc, options)

    def _objects_of_each(self, paths: Sequence[str], cc: str, options: list[str]) -> list[str]:
        """Does so with a compiler for each source. As many run at once as there are cores."""
        keys = [self._key(path, cc, options) if path.endswith(SOURCES) else () for path in paths]
        running: list[tuple[tuple[str, ...], str, subprocess.Popen[bytes]]] = []
        for path, key in zip(paths, keys):
            if not key or key in self._objects:
                continue
            if len(running) == CORES:
                self._wait(*running.pop(0))
            object_path = os.path.join(self._folder, "source_%d.o" % len(self._objects))
            self._objects[key] = ""
            command = [cc, "-pipe", "-fPIC", "-c", "-o", object_path, path, *options]
            if self._watches:
                command += ["-MD", "-MF", object_path + ".d"]
            running.append((key, object_path, subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )))
        for started in running:
            self._wait(*started)
        return [self._objects.get(key) or path for path, key in zip(paths, keys)]

    def _joined(self, paths: Sequence[str], cc: str, options: list[str]) -> list[str]:
        """Returns the files with an object in place of sources that compile as one, where the first was."""
        groups: dict[tuple[Any, ...], list[str]] = {}
        empty: list[str] = []
        texts: dict[str, bytes] = {}
        for path in paths:
            ending = os.path.splitext(path)[1]
            if ending not in SOURCES or (ending == ".c" and "++" not in os.path.basename(cc)):
                continue
            with open(path, "rb") as f:
                text = texts[path] = f.read()
            if text.strip() == _NOTHING:
                # TVM writes it for a module without functions of its own.
                empty.append(path)
            elif not _LEAKS.search(text) and not _TAKES_IN.search(text):
                includes = _INCLUDES.findall(text) if self._as_one else [path]
                groups.setdefault((ending, *includes), []).append(path)
        files = list(paths)
        for (ending, *_), group in groups.items():
            if len(group) + len(empty) < 2:
                continue
            group, empty = group + empty, []
            whole = os.path.join(self._folder, "sources_%d%s" % (len(self._objects), ending))
            with open(whole, "wb") as f:
                f.write(b"\n".join(texts[path] for path in group) + b"\n")
            [made] = self._objects_of_each([whole], cc, options)
            if made != whole:
                files = [made if path == group[0] else path for path in files if path not in group[1:]]
        return files

    def _wait(self, key: tuple[str, ...], object_path: str, process: subprocess.Popen[bytes]) -> None:
        self._objects[key] = "" if process.wait() else object_path
        if self._watches:
            self.read.update(export_digest.headers(object_path + ".d"))

    def _key(self, path: str, cc: str, options: list[str]) -> tuple[str, ...]:
        with open(path, "rb") as f:
            text = f.read()
        # Such included files may have changed since, so the source's path is part of its key.
        elsewhere = path if _TAKES_IN.search(text) else ""
        return (hashlib.sha256(text).hexdigest(), os.path.splitext(path)[1], cc, *options, elsewhere)
