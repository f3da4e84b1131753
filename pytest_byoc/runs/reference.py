"""The run of the reference worker: a graph is built and run by TVM without the target."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..core.graph import Graph
from ..core.openings import OpenExtent
from ..ir.interface import IR, Executable
from ..ir.machine import MACHINE
from ..ir.shared import known_here
from .base import Arrays, Run
from .compiling import Compiler
from .reporter import Reporter


class ReferenceRun(Run):
    """A run through the stages lower, build (with LLVM), run and, if requested, export."""

    def __init__(self, ir: IR, graph: Graph, job: Mapping[str, Any], reporter: Reporter) -> None:
        super().__init__(ir, job, reporter)
        self.graph = graph
        self._constants: Arrays = job["constants"]
        self._opt_level = int(job.get("opt_level", 0))
        #: The PassContext's config: the target's, where LLVM is to build as the target does.
        self._config = known_here(job.get("pass_config", {}))
        #: The extents of inputs that have no fixed size.
        self._opened = [OpenExtent(*fields) for fields in job.get("opened", [])]
        #: The tuning log whose schedules LLVM's build uses; None for TVM's own schedules.
        self._tuning: Mapping[str, str] | None = job.get("tuning")
        #: The path to which the artifact is written; "" if it is not exported.
        self._export: str = job.get("export", "")

    def execute(self, executor: str) -> None:
        self._executor = executor
        self.stage("lower")
        module, _ = self.ir.lower(self.graph, self._constants, self._opened)
        self.record("output_types", self.ir.output_types(module))
        self.stage("build")
        executable = self._built(module, executor)
        self.stage("run")
        for i, inputs in enumerate(self.inputs):
            self.record("outputs", {"set": i, "arrays": executable.run(inputs)[0]})
        if self._export:
            if MACHINE.device:
                self.stage("build")
                with MACHINE.of_the_device():
                    executable = self._built(module, executor)
            self.stage("export")
            executable.export(self._export, self._options(self._export))
            self._hand_over(executable)

    def _built(self, module: Any, executor: str) -> Executable:
        if self._tuning is None:
            return self.ir.build(module, executor, self._opt_level, config=self._config)
        tuned = self.ir.build_tuned(module, executor, self._opt_level, self._config, self._tuning)
        executable, fitting = tuned
        self.record("fitting", fitting)
        return executable

    def _options(self, path: str) -> Mapping[str, Any]:
        return Compiler(os.path.dirname(path)).options(path, {}) if MACHINE.cc else {}

    def _hand_over(self, executable: Executable) -> None:
        """Exports LLVM's artifact in the further forms that checks have the loader load."""
        if "archive" in self._checks:
            self._check = "archive"
            # TVM unpacks the archive into a folder named like it without the suffix, so the name
            # must differ from the library's.
            executable.export(self._export + "_archive.tar", {})
            self.pass_on(self._export + "_archive.tar")
        if "params" in self._checks and executable.has_parts:
            self._check = "params"
            self.pass_on(executable.export_parts(self._export, self._options(self._export)))
