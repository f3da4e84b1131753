"""The role that loads and runs exported artifacts."""

from __future__ import annotations

import importlib
import platform
from typing import Any, Mapping

from ..checks import CHECKS
from ..core.errors import Failure
from ..ir.interface import IR
from ..ir.poison import poison_allocations
from ..runs import DeviceRun, LoaderRun, fenv
from ..runs.measuring import measure_peak, measure_seconds
from ..runs.preparing import Preparation
from ..runs.reporter import Reporter
from .libraries import import_python, load_shared, running_threads
from .role import Role


class LoaderRole(Role):
    """The role that loads and runs exported artifacts.

    Of the vendor's Python code it imports only the declared libraries and `prepare`'s module. It
    does not load TVM's compiler if the installation has a separate runtime library.
    """

    def __init__(self, ir: IR, config: Mapping[str, Any]) -> None:
        """Imports TVM's runtime and the target's libraries, and describes the process.

        config: "functions" (names of global functions, of which missing ones are reported as
        "absent"), "libraries" (the target's), "late" (whether each child loads them, and not this
        process), "prepare" (the target's), "without_libraries" (whether the module of "prepare" may
        be missing).
        """
        import tvm

        self._ir = ir
        self.watch_files(config)
        libraries, late = config.get("libraries", []), config.get("late", False)
        self._preparation = Preparation(config.get("prepare"))
        self._libraries = libraries if late else ()
        ir.import_runtime()
        fenv.remember()
        if not late:
            import_python(libraries)
            if not config.get("without_libraries"):
                self._find_preparation()
        functions = config.get("functions", [])
        absent = [f for f in functions if tvm.get_global_func(f, allow_missing=True) is None]
        self.description = {
            "runtime_only": runtime_only(), "absent": absent, "threads": running_threads(),
            "machine": "on %s with python %s" % (platform.machine(), platform.python_version()),
            "files": self.loaded_files(),
        }

    def run(self, job: Mapping[str, Any], reporter: Reporter) -> None:
        if self._libraries:
            reporter.stage("load")
            load_shared(self._libraries, with_tvm=True)
            import_python(self._libraries)
        for kind, measure in (("time", measure_seconds), ("peak", measure_peak)):
            if kind in job:
                measure(self._ir, job, self._preparation, reporter)
                return
        poison_allocations()
        if "tape" in job:
            DeviceRun(self._ir, job, reporter, self._preparation).play(job["tape"])
            return
        run = LoaderRun(self._ir, job, reporter, self._preparation)
        for check in CHECKS:
            if check.reload is None or check.id not in job["checks"]:
                continue
            run.make(check.id, check.reload)
        self.tell_loaded_files(reporter)
        reporter.leaves_normally = run.leaves_normally

    def _find_preparation(self) -> None:
        try:
            self._preparation.find()
        except Exception as e:
            raise Failure(
                "prepare (%s) can't be imported where artifacts are loaded, with TVM's runtime and the "
                "target's libraries alone (%s: %s): move it to a module that needs nothing else"
                % (self._preparation.declared, type(e).__name__, e)
            ) from None


def runtime_only() -> bool:
    """Returns whether this process has only the runtime of TVM."""
    for path in ("tvm.base", "tvm._ffi.base"):
        try:
            return bool(importlib.import_module(path)._RUNTIME_ONLY)
        except (ImportError, AttributeError):
            continue
    return False
