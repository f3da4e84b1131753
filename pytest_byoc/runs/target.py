"""The run of the target worker: one graph goes through the vendor's code.

Each product (module, partitioned module, executable, outputs) is made once, when a check first
needs it. A stage that failed is not tried again, and is reported once.
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
    """A second graph, with its constants and a set of inputs."""

    graph: Graph
    constants: Arrays
    inputs: Arrays


def _other(given: Mapping[str, Any] | None) -> Other | None:
    return Other(Graph.from_dict(given["graph"]), given["constants"], given["inputs"]) if given else None


class TargetRun(Run):
    """A run through the stages lower, partition, build, run and export, with the vendor's code."""

    #: Whether the sources of the regions may be compiled as one (see `Compiler`).
    one_source = False

    def __init__(
        self, ir: IR, target: Any, graph: Graph, job: Mapping[str, Any], reporter: Reporter
    ) -> None:
        super().__init__(ir, job, reporter)
        self.graph = graph
        self.target = target
        self._preparation = target.preparation
        #: Whether the module to be built was not partitioned, so that TVM alone builds it.
        self._of_tvm = False
        self.executors: list[str] = job.get("executors") or ir.executors()[0]
        self.constants: Arrays = job["constants"]
        #: Whether the code that TVM generates may be slow, which saves compile time.
        self._fast_build = bool(job.get("fast_build", False))
        #: Whether LLVM builds the regions in the target's place: only partitioning is tested.
        self._partition_only = bool(job.get("partition_only", False))
        self._folder: str = job.get("folder", "")
        self._products: dict[tuple[str, ...], Any] = {}
        self._exports = 0
        self._compiler: Compiler | None = None
        #: The graph with a larger batch; None where it has no batch.
        self.larger = _other(job.get("larger"))
        #: The graph with other constants; None where it has none that could be different.
        self.twin = _other(job.get("twin"))
        #: TVM's current target and PassContext before the first partitioning (see `IR.scopes`).
        self.scopes: dict[str, str] = {}
        #: The partitioned module as text, where the check "reproducible" is made. It is taken
        #: before any build, since Relay's build writes into attributes (of qnn.requantize) that the
        #: module shares.
        self.outline: list[str] = []
        #: Whether the partitioned module is known to hold no region.
        self.nothing_offloaded = False
        #: Whether the last call of `partition` changed main.
        self.main_changed = False
        #: Whether partitioning this run's own graph changed main.
        self._changed = False

    def _once(self, key: tuple[str, ...], make: Any) -> Any:
        if key not in self._products:
            try:
                self._products[key] = (make(), None)
            except Exception as e:
                self._products[key] = (None, e)
        value, error = self._products[key]
        if error is not None:
            raise error
        return value

    def can_use(self, executor: str) -> bool:
        """Returns whether TVM has that executor and the target's regions can be built for it."""
        return executor in self.ir.executors()[0] and self.target.takes_executor(executor)

    def module(self) -> Any:
        """Returns the graph as an IRModule."""

        def make() -> Any:
            self.stage("lower")
            module, self._signatures = self.ir.lower(self.graph, self.constants)
            return module

        return self._once(("lower",), make)

    def partitioned(self) -> Any:
        """Returns the IRModule that the vendor's partition function returned for the graph."""

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
        """Replaces the graph by a part of it, and drops the inputs and constants of the rest."""
        self.graph, self._signatures = graph, signatures
        names = [s.name for s in graph.inputs]
        self.inputs = [{name: given[name] for name in names} for given in self.inputs]
        self.constants = {s.name: self.constants[s.name] for s in graph.constants}

    def regions(self) -> dict[str, Any]:
        """Returns facts about the partitioned module.

        They are those of `IR.partition_facts`, "nodes" (the signature of each node of the graph),
        and "changed" (whether partitioning changed main).
        """
        facts = self.ir.partition_facts(self.partitioned())
        self.nothing_offloaded = not facts["regions"]
        return dict(facts, nodes=self._signatures, changed=self._changed)

    @property
    def nothing_to_judge(self) -> bool:
        """True if nothing is offloaded and main is unchanged: a check would only judge TVM."""
        return self.nothing_offloaded and not self._changed

    def lowered_again(self) -> Any:
        """Returns the graph as a second IRModule, which shares nothing with the first."""
        return self.lowered_other(self.graph, self.constants)

    def lowered_other(self, graph: Graph, constants: Arrays) -> Any:
        """Returns another graph as an IRModule."""
        return self.ir.lower(graph, constants)[0]

    def partitioned_other(self, graph: Graph, constants: Arrays) -> Any:
        """Returns another graph as the vendor's partition function partitions it."""
        self.stage("lower")
        return self.partition(self.lowered_other(graph, constants))

    def partition(self, module: Any) -> Any:
        """Calls the vendor's partition function, and returns the partitioned module.

        Raises NotAModule where it returns something other than a module, and MainLost where main is
        gone or has another type.
        """
        self.stage("partition")
        self.scopes = self.scopes or self.ir.scopes()
        # The vendor may change the module in place. Functions are immutable, so main is kept.
        main, types = module["main"], self.ir.main_type(module)
        with configured(self.target.pass_config):
            partitioned = self.ir.check_partitioned(self.target.partition(module))
        check_type(types, self.ir.main_type(partitioned))
        self.main_changed = not self.ir.same_function(main, partitioned["main"])
        return partitioned

    def marked_by_hand(self) -> Any:
        """Returns the graph's module with one region marked as a user would do it.

        The region holds an operator that the target offloads. None where that can't be done.
        """
        partitioned, regions = self.partitioned(), self.regions()["regions"]
        table = self.pattern_table(regions)
        return self.ir.modules.marked_by_hand(self.lowered_again(), partitioned, regions, table)

    def pattern_table(self, regions: Sequence[Mapping[str, Any]]) -> Any:
        """Returns the patterns of the declared name, or else those of the regions' compiler."""
        names = [self.target.patterns] + [region["compiler"] for region in regions]
        tables = (self.ir.pattern_table(name) for name in dict.fromkeys(names))
        return next((table for table in tables if table), [])

    def lowered_unbound(self) -> Any:
        """Returns the graph as an IRModule with its constants as inputs."""
        return self.ir.lower(self.graph.unbound(), {})[0]

    def unbound(self) -> Any:
        """Returns the graph with its constants as inputs, partitioned.

        Where TVM does not lower such a graph, it reports the check as not made, and returns None.
        """

        def make() -> Any:
            module = self._lowered(self.lowered_unbound, "TVM accepts these values as constants only")
            return None if module is None else self.partition(module)

        return self._once(("unbound",), make)

    def _lowered(self, lower: Callable[[], Any], why_not: str) -> Any:
        """Returns lower(). If that raises, it reports the check as not made, and returns None."""
        try:
            return lower()
        except Exception as e:
            self.not_checked("%s (%s)" % (why_not, type(e).__name__))
            return None

    def open_module(self) -> Any:
        """Returns the graph as an IRModule whose batch has no fixed extent.

        Where TVM does not lower such a graph, it reports the check as not made, and returns None.
        """
        assert self.larger is not None
        batched = self.graph.differing(self.larger.graph)
        self.stage("lower")
        return self._lowered(
            lambda: self.ir.lower(self.graph, self.constants, batched)[0],
            "TVM cannot express this graph with a dynamic batch",
        )

    def with_non_op_nodes(self) -> Form | None:
        """Returns the graph as a Form with nodes that call no operator; None where it has none.

        Where TVM does not lower such a graph, it reports the check as not made, and returns None.
        """
        self.stage("lower")
        facts = self.regions()

        return self._lowered(
            lambda: self.ir.modules.with_non_op_nodes(self.lowered_again, facts, self.inputs),
            "TVM cannot lower the graph in this form",
        )

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
                self.not_checked("TVM's own build fails too %s (%s)" % (what, type(e).__name__))
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
        if self._runs_from_library(executable):
            return self.loaded(export(), executor)
        if self.target.preparation.declared:
            self.stage("load")
        return self.ready(executable)

    def loaded(self, path: str, executor: str) -> Executable:
        """Loads an exported library, ready to run in this process."""
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
            return self._write(self.executable(executor), "artifact_%s.so" % executor)

        return self._once(("export", executor), make)

    def _write(self, executable: Executable, name: str) -> str:
        """Exports an executable to a file of that name, and returns its path."""
        self.stage("export")
        path = self.in_folder(name)
        self._compiler = self._compiler or Compiler(self._folder, self.one_source)
        executable.export(path, self._compiler.options(path, self.target.export_options))
        return path
