"""One graph through the vendor's code.

Each artifact (module, partitioned module, executable, outputs) is made once, at the first time a
check asks for it. A stage that failed is not tried again, and is reported once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.graph import Graph
from ..ir.interface import IR, Executable, Form
from ..ir.main_function import check_type
from ..ir.shared import configured
from .base import Arrays, NotCheckable, Run
from .compiling import Compiler
from .reporter import Reporter


class Other(NamedTuple):
    """Another graph, its constants, a set of inputs."""

    graph: Graph
    constants: Arrays
    inputs: Arrays


def _other(given: Mapping[str, Any] | None) -> Other | None:
    return Other(Graph.from_dict(given["graph"]), given["constants"], given["inputs"]) if given else None


class TargetRun(Run):
    """lower, partition, build, run, export: through the vendor's code."""

    #: Whether the sources of its regions may be compiled as one.
    one_source = False

    def __init__(
        self, ir: IR, target: Any, graph: Graph, job: Mapping[str, Any], reporter: Reporter
    ) -> None:
        super().__init__(ir, job, reporter)
        self.graph = graph
        self.target = target
        self._preparation = target.preparation
        #: Whether what is built is TVM's own, of a module that the target has not partitioned.
        self._of_tvm = False
        self.executors: list[str] = job.get("executors") or ir.executors()[0]
        self.constants: Arrays = job["constants"]
        #: Whether what TVM computes itself may be slow: it is compiled in less time then.
        self._quick = bool(job.get("quick", False))
        #: Whether LLVM builds the regions in the target's place.
        self._partition_only = bool(job.get("partition_only", False))
        self._folder: str = job.get("folder", "")
        self._made: dict[tuple[str, ...], Any] = {}
        self._exports = 0
        self._compiler: Compiler | None = None
        #: The graph for a larger batch; None where it has no batch.
        self.larger = _other(job.get("larger"))
        #: The graph with other constants; None where there are none that could be others.
        self.twin = _other(job.get("twin"))
        #: What TVM had as current before anything was partitioned.
        self.scopes: dict[str, str] = {}
        #: The partitioned module as text, where a check asks for it, before anything is built: Relay's build
        #: writes into attributes (of qnn.requantize) that the module shares.
        self.outline: list[str] = []
        #: Set once the partitioned module is known to hold no region.
        self.nothing_offloaded = False
        #: Set by `partition`: whether main has become another than the one that was partitioned.
        self.main_changed = False
        #: The same of `partitioned`.
        self._changed = False

    def _once(self, key: tuple[str, ...], make: Any) -> Any:
        if key not in self._made:
            try:
                self._made[key] = (make(), None)
            except Exception as e:
                self._made[key] = (None, e)
        value, error = self._made[key]
        if error is not None:
            raise error
        return value

    def can_use(self, executor: str) -> bool:
        """Whether TVM has an executor of that name, and the target's regions can be built for it."""
        return executor in self.ir.executors()[0] and self.target.takes_executor(executor)

    def module(self) -> Any:
        """The graph as an IRModule."""

        def make() -> Any:
            self.stage("lower")
            module, self._signatures = self.ir.lower(self.graph, self.constants)
            return module

        return self._once(("lower",), make)

    def partitioned(self) -> Any:
        """The IRModule after the vendor's partition function."""

        def make() -> Any:
            module = self._partition_graph()
            self._changed = self.main_changed
            if "reproducible" in self._checks:
                self.outline = self.ir.modules.outline(module)
            return module

        return self._once(("partition",), make)

    def _partition_graph(self) -> Any:
        return self.partition(self.module())

    def narrow(self, graph: Graph, signatures: list[str]) -> None:
        """Goes on with what is left of the graph: with those of its inputs and constants."""
        self.graph, self._signatures = graph, signatures
        names = [s.name for s in graph.inputs]
        self.inputs = [{name: given[name] for name in names} for given in self.inputs]
        self.constants = {s.name: self.constants[s.name] for s in graph.constants}

    def regions(self) -> dict[str, Any]:
        """Facts about the offloaded regions, the signature each node can be found by, and whether main was
        changed by partitioning."""
        facts = self.ir.partition_facts(self.partitioned())
        self.nothing_offloaded = not facts["regions"]
        return dict(facts, nodes=self._signatures, changed=self._changed)

    @property
    def nothing_to_judge(self) -> bool:
        """Nothing is offloaded, and the module computes what TVM computes without the target: it is the same.
        """
        return self.nothing_offloaded and not self._changed

    def lowered_again(self) -> Any:
        """The graph as another IRModule, which shares nothing with the first."""
        return self.lowered_other(self.graph, self.constants)

    def lowered_other(self, graph: Graph, constants: Arrays) -> Any:
        """Another graph as an IRModule."""
        return self.ir.lower(graph, constants)[0]

    def partitioned_other(self, graph: Graph, constants: Arrays) -> Any:
        """What the vendor's partition function makes of another graph."""
        self.stage("lower")
        return self.partition(self.lowered_other(graph, constants))

    def partition(self, module: Any) -> Any:
        """What the vendor's partition function makes of a module.

        Raises NotAModule for something else than a module, and MainLost for one whose main is gone or has
        another type."""
        self.stage("partition")
        self.scopes = self.scopes or self.ir.scopes()
        # The module may be changed in place; functions are not.
        main, types = module["main"], self.ir.main_type(module)
        with configured(self.target.pass_config):
            partitioned = self.ir.check_partitioned(self.target.partition(module))
        check_type(types, self.ir.main_type(partitioned))
        self.main_changed = not self.ir.same_function(main, partitioned["main"])
        return partitioned

    def marked_by_hand(self) -> Any:
        """The graph with an operator that the target takes marked as a region of its, as a user would; None
        where it can't be."""
        partitioned, regions = self.partitioned(), self.regions()["regions"]
        table = self.pattern_table(regions)
        return self.ir.modules.marked_by_hand(self.lowered_again(), partitioned, regions, table)

    def pattern_table(self, regions: Sequence[Mapping[str, Any]]) -> Any:
        """The target's patterns: those of the name it declares, or else of the name its regions have."""
        names = [self.target.patterns] + [region["compiler"] for region in regions]
        tables = (self.ir.pattern_table(name) for name in dict.fromkeys(names))
        return next((table for table in tables if table), [])

    def lowered_unbound(self) -> Any:
        """The graph as an IRModule with its constants as inputs."""
        return self.ir.lower(self.graph.unbound(), {})[0]

    def unbound(self) -> Any:
        """What the vendor's partition function makes of the graph with its constants as inputs; None, the
        check being recorded as not made, where TVM has no such graph."""

        def make() -> Any:
            module = self._lowered(self.lowered_unbound, "TVM takes these constants as constants only")
            return None if module is None else self.partition(module)

        return self._once(("unbound",), make)

    def _lowered(self, lower: Callable[[], Any], why_not: str) -> Any:
        """What a function lowers; None, the check being recorded as not made, where TVM refuses that."""
        try:
            return lower()
        except Exception as e:
            self.not_checked("%s (%s)" % (why_not, type(e).__name__))
            return None

    def open_module(self) -> Any:
        """The graph as an IRModule with its batch left open; None, the check being recorded as not made,
        where TVM has no such graph."""
        assert self.larger is not None
        batched = self.graph.differing(self.larger.graph)
        self.stage("lower")
        return self._lowered(
            lambda: self.ir.lower(self.graph, self.constants, batched)[0],
            "TVM has no such graph with its batch left open",
        )

    def with_non_op_nodes(self) -> Form | None:
        """The graph as a Form with other nodes than calls of operators; None where there is none, the check
        being recorded as not made where TVM refuses it."""
        self.stage("lower")
        facts = self.regions()

        return self._lowered(
            lambda: self.ir.modules.with_non_op_nodes(self.lowered_again, facts, self.inputs),
            "TVM does not lower this graph so",
        )

    def executable(self, executor: str) -> Executable:
        """The partitioned module, built for an executor."""

        def make() -> Executable:
            partitioned = self.partitioned()
            self.stage("build")
            return self._build(partitioned, executor, self.target.opt_level)

        return self._once(("build", executor), make)

    def _runs_from_library(self, executable: Executable) -> bool:
        """Whether what was built is run only as the library that it is exported to: it has functions that are
        compiled then, or linked by the target's own export options, or it is of the target's own making."""
        if self._partition_only:
            return False
        return bool(self._own_build or executable.needs_export() or self.target.export_options)

    @property
    def _all_tvms(self) -> bool:
        """Whether what is built holds nothing of the target's."""
        return self._of_tvm or self._partition_only or self.nothing_offloaded

    @property
    def _own_build(self) -> bool:
        """Whether a function of the target's builds in place of TVM's."""
        return self.target.build is not None and not self._all_tvms

    def ready(self, executable: Executable) -> Executable:
        return executable if self._all_tvms else super().ready(executable)

    def _build(self, module: Any, executor: str, opt_level: int) -> Executable:
        if self._partition_only:
            return self.inlined(module, executor, opt_level)
        config = self.target.pass_config
        if not self._own_build:
            return self.ir.build(module, executor, opt_level, self._quick, config)
        with configured(config, opt_level):
            return self.ir.built(self.target.build(module, executor), executor)

    def inlined(self, module: Any, executor: str, opt_level: int) -> Executable:
        """A partitioned module with its regions inlined, built by LLVM. Raises NotCheckable where TVM can do
        neither with what the regions hold (a layout, say, that is the target's alone)."""
        if not self.ir.partition_facts(module)["regions"]:
            self.stage("build")
            return self.ir.build(module, executor, opt_level)
        try:
            plain = self.ir.modules.inline_back(module)
        except Exception as e:
            raise NotCheckable("TVM cannot inline the regions (%s)" % type(e).__name__) from e
        if self.ir.partition_facts(plain)["regions"]:
            raise NotCheckable("regions are left where they are called in another way than from main")
        try:
            return self.ir.build(plain, executor, opt_level)
        except Exception as e:
            raise NotCheckable(
                "TVM's LLVM does not build what the regions hold (%s)" % type(e).__name__
            ) from e

    def run(self, executor: str, which: int) -> tuple[list[np.ndarray], list[str]]:
        """One more run with a set of inputs: outputs, and names of inputs that were modified."""
        runnable = self.runnable(executor)
        self.stage("run")
        return runnable.run(self.inputs[which])

    def run_at(
        self, module: Any, executor: str, level: int, inputs: Arrays | None = None
    ) -> list[np.ndarray]:
        """Outputs of a module, built at an opt_level of the check's own choice."""
        return self.run_each(module, executor, level, [self.inputs[0] if inputs is None else inputs])[0]

    def run_each(
        self, module: Any, executor: str, level: int, sets: Sequence[Arrays]
    ) -> list[list[np.ndarray]]:
        """As `run_at`, of one executable for several sets of inputs in turn."""
        self.stage("build")
        executable = self._build(module, executor, level)
        executable = self._to_run(executable, lambda: self._write(executable, self._another_name()), executor)
        self.stage("run")
        return [executable.run(inputs)[0] for inputs in sets]

    def write(self, module: Any, executor: str) -> str:
        """Path of the shared library that another module was built and exported to."""
        self.stage("build")
        return self._write(self._build(module, executor, self.target.opt_level), self._another_name())

    def _another_name(self) -> str:
        self._exports += 1
        return "another_%d.so" % self._exports

    def unless_tvm_fails(
        self, make: Callable[[Any], Any], module: Any, lower: Callable[[], Any], what: str
    ) -> Any:
        """make(module), the module being what the target has partitioned of what `lower` returns. None, the
        check being recorded as not made, where TVM's own build of that fails at it too."""
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
                self.not_checked("TVM's own build fails too %s (%s)" % (what, type(e).__name__))
                return None
            finally:
                self._of_tvm = False
            self.stage(stage)
            raise

    def unless_refused(self, make: Callable[[], Any]) -> Any:
        """make(); None where what is made raises while it is compiled: the vendor's code may refuse it."""
        try:
            return make()
        except NotCheckable:
            raise
        except Exception:
            if self._reporter.stage_name not in ("build", "export"):
                raise
            return None

    def runnable(self, executor: str) -> Executable:
        """What is run in this process: the executable itself, or the library it was exported to."""

        def make() -> Executable:
            return self._to_run(self.executable(executor), lambda: self.export(executor), executor)

        return self._once(("runnable", executor), make)

    def _to_run(self, executable: Executable, export: Callable[[], str], executor: str) -> Executable:
        """What is run in this process of what was built. export: writes it to the path that it returns."""
        if self._runs_from_library(executable):
            return self.loaded(export(), executor)
        if self.target.preparation.declared:
            self.stage("load")
        return self.ready(executable)

    def loaded(self, path: str, executor: str) -> Executable:
        """What was exported to a path, ready to run in this process."""
        self.stage("load")
        return self.load_from(path, executor)

    def first_run(self, executor: str) -> tuple[list[np.ndarray], list[str]]:
        """The first run with the first inputs, on memory nothing has run in before."""
        return self._once(("run", executor), lambda: self.run(executor, 0))

    def export_as(self, executor: str, name: str) -> str:
        """Path of a file of that name the executable was written to, once more."""
        return self._write(self.executable(executor), name)

    def in_folder(self, name: str) -> str:
        """Path of a file beside the artifacts."""
        return os.path.join(self._folder, name)

    def export(self, executor: str) -> str:
        """Path of the shared library the executable was written to."""

        def make() -> str:
            return self._write(self.executable(executor), "artifact_%s.so" % executor)

        return self._once(("export", executor), make)

    def _write(self, executable: Executable, name: str) -> str:
        """Path of the file."""
        self.stage("export")
        path = self.in_folder(name)
        self._compiler = self._compiler or Compiler(self._folder, self.one_source)
        executable.export(path, self._compiler.options(path, self.target.export_options))
        return path
