"""The run of the target worker: one graph goes through the vendor's code, from lower to run."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.files import FileState, state
from ..core.graph import Graph
from ..ir.interface import IR, Executable
from ..ir.machine import MACHINE
from ..ir.shared import configured
from . import written_files
from .base import Arrays, NotCheckable
from .compiling import Compiler
from .on_device import Recorder
from .partitioning import PartitioningRun
from .reporter import Reporter


class TargetRun(PartitioningRun):
    """A run through the stages lower, partition, build, run and export, with the vendor's code."""

    def __init__(
        self, ir: IR, target: Any, graph: Graph, job: Mapping[str, Any], reporter: Reporter
    ) -> None:
        super().__init__(ir, target, graph, job, reporter)
        self._preparation = target.preparation
        #: Whether the module to be built was not partitioned, so that TVM alone builds it.
        self._of_tvm = False
        self.executors: list[str] = job.get("executors") or ir.executors()[0]
        #: Whether the code that TVM generates may be slow, which saves compile time.
        self._fast_build = bool(job.get("fast_build", False))
        #: Whether the sources of the regions may be compiled as one (see `Compiler`).
        self._one_source = bool(job.get("one_source", False))
        #: Whether LLVM builds the regions in the target's place: only partitioning is tested.
        self._partition_only = bool(job.get("partition_only", False))
        self._folder: str = job.get("folder", "")
        self._exports = 0
        self._compiler: Compiler | None = None
        #: Whether digests of the exported code are told, by which a later session knows it again.
        self._tells_code = bool(job.get("tells_code", False))
        #: Records what only the device can run; None where this machine runs the artifacts.
        self._recorder = Recorder(self) if MACHINE.foreign and not self._partition_only else None

    def can_use(self, executor: str) -> bool:
        """Returns whether TVM has that executor and the target's regions can be built for it."""
        return executor in self.ir.executors()[0] and self.target.takes_executor(executor)

    def executable(self, executor: str) -> Executable:
        """Returns the partitioned module, built for an executor."""

        def make() -> Executable:
            partitioned = self.partitioned()
            self.stage("build")
            return self._build(partitioned, executor, self.target.opt_level)

        return self._once(("build", executor), make)

    def _runs_from_library(self, executable: Executable) -> bool:
        """Returns whether a built module has to be exported and loaded before it can run.

        That is the case if it holds sources or objects, if the target has export options, which may
        link libraries, or if the target's own function built it.
        """
        if self._partition_only:
            return False
        return bool(self._own_build or executable.needs_export() or self.target.export_options)

    @property
    def _all_tvms(self) -> bool:
        """Returns whether the built modules hold no code of the target."""
        return self._of_tvm or self._partition_only or self.nothing_offloaded

    @property
    def _own_build(self) -> bool:
        """Returns whether the target's own function builds, in place of TVM's."""
        return self.target.build is not None and not self._all_tvms

    def ready(self, executable: Executable) -> Executable:
        return executable if self._all_tvms else super().ready(executable)

    def _build(self, module: Any, executor: str, opt_level: int) -> Executable:
        if self._partition_only:
            return self.inlined(module, executor, opt_level)
        config = self.target.pass_config
        with MACHINE.of_the_device():
            if not self._own_build:
                return self.ir.build(module, executor, opt_level, self._fast_build, config)
            with configured(config, opt_level):
                return self.ir.built(self.target.build(module, executor), executor)

    def inlined(self, module: Any, executor: str, opt_level: int) -> Executable:
        """Returns a partitioned module with its regions inlined, built by LLVM.

        Raises NotCheckable where TVM can't inline or build the content of the regions, for example
        a layout that only the target implements.
        """
        if not self.ir.partition_facts(module)["regions"]:
            self.stage("build")
            return self.ir.build(module, executor, opt_level)
        try:
            plain = self.ir.modules.inline_back(module)
        except Exception as e:
            raise NotCheckable("TVM cannot inline the regions (%s)" % type(e).__name__) from e
        if self.ir.partition_facts(plain)["regions"]:
            raise NotCheckable("regions that are not called from main remain")
        try:
            return self.ir.build(plain, executor, opt_level)
        except Exception as e:
            raise NotCheckable(
                "TVM's LLVM cannot build the regions (%s)" % type(e).__name__
            ) from e

    def run(self, executor: str, which: int) -> tuple[list[np.ndarray], list[str]]:
        """Runs with a set of inputs; returns the outputs, and the names of modified inputs."""
        runnable = self.runnable(executor)
        self.stage("run")
        return runnable.run(self.inputs[which])

    def run_at(
        self, module: Any, executor: str, level: int, inputs: Arrays | None = None
    ) -> list[np.ndarray]:
        """Builds a module at an opt_level of the check, and returns its outputs.

        inputs: the first set of inputs if None.
        """
        return self.run_each(module, executor, level, [self.inputs[0] if inputs is None else inputs])[0]

    def run_each(
        self, module: Any, executor: str, level: int, sets: Sequence[Arrays]
    ) -> list[list[np.ndarray]]:
        """Does the same as `run_at` with several sets of inputs for one executable."""
        self.stage("build")
        executable = self._build(module, executor, level)
        executable = self._to_run(executable, lambda: self._write(executable, self._another_name()), executor)
        self.stage("run")
        return [executable.run(inputs)[0] for inputs in sets]

    def write(self, module: Any, executor: str) -> str:
        """Builds and exports another module, and returns the path of the shared library."""
        self.stage("build")
        return self._write(self._build(module, executor, self.target.opt_level), self._another_name())

    def _another_name(self) -> str:
        self._exports += 1
        return "another_%d.so" % self._exports

    def unless_tvm_fails(
        self, make: Callable[[Any], Any], module: Any, lower: Callable[[], Any], what: str
    ) -> Any:
        """Returns make(module), unless it also fails for TVM without the target.

        module: the module of `lower`, partitioned. If make(module) raises, make(lower()) is tried
        with TVM's own build. If that raises too, the check is reported as not made, and None is
        returned.
        """
        try:
            return make(module)
        except NotCheckable:
            raise
        except Exception:
            stage = self._reporter.stage_name
            self._of_tvm = True
            try:
                make(lower())
            except Exception as e:
                self.not_checked("TVM alone fails too %s (%s)" % (what, type(e).__name__))
                return None
            finally:
                self._of_tvm = False
            self.stage(stage)
            raise

    def unless_refused(self, make: Callable[[], Any]) -> Any:
        """Returns make(); None where it raises in the stage build or export.

        A vendor's code may refuse to compile such a graph.
        """
        try:
            return make()
        except NotCheckable:
            raise
        except Exception:
            if self._reporter.stage_name not in ("build", "export"):
                raise
            return None

    def runnable(self, executor: str) -> Executable:
        """Returns an executable that can run in this process, loaded from a library if need be."""

        def make() -> Executable:
            return self._to_run(self.executable(executor), lambda: self.export(executor), executor)

        return self._once(("runnable", executor), make)

    def _to_run(self, executable: Executable, export: Callable[[], str], executor: str) -> Executable:
        """Returns an executable that can run. export: exports it, and returns the path."""
        if self._recorder is not None or self._runs_from_library(executable):
            return self.loaded(export(), executor)
        if self.target.preparation.declared:
            self.stage("load")
        return self.ready(executable)

    def loaded(self, path: str, executor: str) -> Executable:
        """Loads an exported library, ready to run, in this process or on the device."""
        if self._recorder is not None:
            return self._recorder.load(path, executor)
        self.stage("load")
        return self.load_from(path, executor)

    def first_run(self, executor: str) -> tuple[list[np.ndarray], list[str]]:
        """Returns the result of the first run, with the first inputs, in memory of no other run."""
        return self._once(("run", executor), lambda: self.run(executor, 0))

    def export_as(self, executor: str, name: str) -> str:
        """Exports the executable to a further file of that name, and returns its path."""
        return self._write(self.executable(executor), name)

    def in_folder(self, name: str) -> str:
        """Returns the path of a file beside the artifacts."""
        return os.path.join(self._folder, name)

    def export(self, executor: str) -> str:
        """Exports the executable once, and returns the path of the shared library."""

        def make() -> str:
            path = self._write(self.executable(executor), "artifact_%s.so" % executor)
            if self._tells_code and (code := self._code_of(executor, path)):
                self.record("code", {executor: code})
            return path

        return self._once(("export", executor), make)

    def is_known(self) -> bool:
        """Returns whether the job names, for each executor, the code that an export would compile now.

        Nothing is compiled for that. It is recorded as the fact "known"; False also where that can't be
        found out.
        """
        known: Mapping[str, str] = self._job["known_code"]
        found = all(known.get(e) and self._code_of(e) == known[e] for e in self.executors)
        self.record("known", found)
        return found

    def _code_of(self, executor: str, made: str = "") -> str:
        """Returns a digest of the partition, and of what is compiled and linked on export; "" if unknown.

        made: the exported library, if there is one.
        """
        if self.target.export_options.get("fcompile"):
            return ""
        try:
            executable, path, rest = self.executable(executor), made, ""
            if not made or executable.holds_addresses:
                path = self.in_folder("unmade_%s.so" % executor)
                self.stage("export")
                rest = executable.export_code(path, self._export_options(path, makes=False))
            assert self._compiler is not None
            return self._digest(self._compiler.given[path], rest)
        except Exception:  # what is wrong with the build, checks report
            return ""

    def _digest(self, given: str, rest: str) -> str:
        """Returns a digest of code. given: that of what is compiled. rest: the code that is not."""
        facts = self.regions()
        # The order of the regions says nothing.
        regions = sorted(json.dumps(region, sort_keys=True, default=str) for region in facts["regions"])
        module = self.ir.modules.hash_of(self.partitioned())
        text = json.dumps([given, rest, module, {**facts, "regions": regions}], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def files_read(self) -> list[FileState]:
        """Returns the files that compilers and linkers have read, except the system's."""
        return sorted(map(state, self._compiler.read)) if self._compiler is not None else []

    def files_written(self) -> list[str]:
        """Exports the executables, and returns the files that were written outside their folder."""
        return written_files.elsewhere(self.export(executor) for executor in self.executors)

    def export_parts(self, executor: str) -> dict[str, str]:
        """Exports the executable as three files, and returns their paths (`Executable.export_parts`)."""
        executable = self.executable(executor)
        self.stage("export")
        path = self.in_folder("parts_%s" % executor)
        return executable.export_parts(path, self._export_options(path + ".so"))

    def _write(self, executable: Executable, name: str) -> str:
        """Exports an executable to a file of that name, and returns its path."""
        self.stage("export")
        path = self.in_folder(name)
        executable.export(path, self._export_options(path))
        return path

    def _export_options(self, path: str, makes: bool = True) -> dict[str, Any]:
        self._compiler = self._compiler or Compiler(self._folder, self._one_source, self._tells_code)
        return self._compiler.options(path, self.target.export_options, makes)
