"""The roles of workers: reference, target, loader, and a list of the targets that TVM knows."""

from __future__ import annotations

import importlib
import os
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Iterator, Mapping, cast

from ..checks import CHECKS
from ..checks.selection import partition_stage
from ..core.errors import Failure, describe_exception
from ..core.graph import Graph
from ..core.irs import IRS
from ..ir.given_patterns import GIVEN
from ..ir.interface import IR
from ..ir.machine import MACHINE
from ..ir.poison import poison_allocations
from ..ir.shared import check_pass_config, configured, plain
from ..runs import ReferenceRun, TargetRun, UnionRun, fenv, written_files
from ..runs.compiling import triple_here
from ..runs.reporter import Reporter
from ..runs.surveying import survey
from . import describing, float64_models, matching, model_import, onnx_models, pattern_tables, warming
from .libraries import import_python, is_path, load_shared
from .loader_role import LoaderRole
from .role import Role, tell_files

if TYPE_CHECKING:
    from ..ir import relax, relay

    # With this assignment mypy checks that each IR's file implements the interface.
    _IRS: tuple[IR, ...] = (relay, relax)


def ir_module(name: str) -> IR:
    return cast(IR, importlib.import_module("pytest_byoc.ir." + name))


def _choose_ir(wanted: list[str]) -> IR:
    """Returns the first IR of `wanted` that this interpreter's TVM has. Raises Failure."""
    reasons = []
    for name in wanted:
        module = ir_module(name)
        try:
            module.check_available()
            return module
        except Failure as e:
            reasons.append(str(e))
    raise Failure("\n".join(reasons))


def prepare(config: Mapping[str, Any]) -> Role:
    """Returns the role of a configuration. Raises Failure, or exceptions of the vendor's code."""
    MACHINE.declare(config.get("device", {}))
    wanted = [config["ir"]] if config.get("ir") else list(IRS)
    if config["role"] == "list":
        return ListRole()
    if config["role"] == "target":
        return TargetRole(config, wanted)
    if config["role"] == "reference":
        return ReferenceRole(_choose_ir(wanted))
    return LoaderRole(ir_module(config["ir"]), config)


def _lowering(ir: IR, job: Mapping[str, Any]) -> IR:
    """Returns the IR, or a stand-in for it where the job contains an imported module, or names the file of
    one."""
    if "model" in job:
        return cast(IR, model_import.model_of(ir, job["model"]))
    return cast(IR, onnx_models.GivenModule(ir, job["module"])) if "module" in job else ir


class ListRole(Role):
    """A role without jobs: its description lists the targets that this TVM knows by name."""

    def __init__(self) -> None:
        targets = {}
        for name in IRS:
            module = ir_module(name)
            try:
                module.check_available()
            except Failure:
                continue
            targets[name] = module.known_targets()
        if not targets:
            _choose_ir(list(IRS))
        self.description = {"targets": targets}


class ReferenceRole(Role):
    def __init__(self, ir: IR) -> None:
        self._ir = ir
        names, missing = ir.executors()
        ir.import_runtime()
        ir.import_compiler()
        self.description = {
            "ir": ir.NAME,
            "versions": ir.versions(),
            "executors": names,
            "not_checked": missing,
        }

    def run(self, job: Mapping[str, Any], reporter: Reporter) -> None:
        if job["kind"] == "types":
            self._types(job["graphs"], reporter)
            return
        if job["kind"] == "model-import":
            model_import.import_model(self._ir, job, reporter)
            return
        if job["kind"] == "model-float64":
            float64_models.run_both(self._ir, job, reporter)
            return
        if job["kind"] in onnx_models.JOBS:
            onnx_models.JOBS[job["kind"]](self._ir, job, reporter)
            return
        run = ReferenceRun(_lowering(self._ir, job), Graph.from_dict(job["graph"]), job, reporter)
        run.execute(job["executor"])

    def _types(self, graphs: list[Any], reporter: Reporter) -> None:
        """Lowers graphs, and sends the types that TVM infers for their outputs."""
        for entry in graphs:
            reporter.stage("lower")
            try:
                module, _ = self._ir.lower(Graph.from_dict(entry["graph"]), entry["constants"])
                types: Any = self._ir.output_types(module)
            except Exception as e:
                types = "%s: %s" % (type(e).__name__, e)
            reporter.send({"fact": "types", "executor": None, "value": types})


class TargetRole(Role):
    def __init__(self, config: Mapping[str, Any], wanted: list[str]) -> None:
        from .resolve import resolve

        available = []
        for name in wanted:
            module = ir_module(name)
            try:
                module.check_available()
                available.append(module)
            except Failure:
                continue
        if not available:
            _choose_ir(wanted)
        fenv.remember()
        written_files.watch()
        self.watch_files(config)
        for ir in available:
            ir.note_given_patterns()
        #: The tables of patterns that TVM has without the target's module, by IR.
        self._tables_of_tvm = {ir.NAME: frozenset(ir.pattern_tables()) for ir in available}
        self.target = resolve(config["target"], available)
        irs = [ir for ir in available if not self.target.irs or ir.NAME in self.target.irs]
        if not irs:
            if config.get("ir"):
                raise Failure(
                    "target %s is declared for %s, not for %s"
                    % (self.target.name, " and ".join(self.target.irs), config["ir"])
                )
            _choose_ir([n for n in IRS if n in self.target.irs])
        self._ir = irs[0]
        self._ir.given.begin()
        load_shared(self.target.libraries, with_tvm=True)
        names, missing = self._ir.executors()
        others = [name for name in names if not self.target.takes_executor(name)]
        missing = [*missing, *("executor %s: the target does not declare it" % name for name in others)]
        names = [name for name in names if name not in others]
        if not names:
            raise Failure(
                "target %s: executors must name one of %s, which %s has; found %s"
                % (self.target.name, ", ".join(others), self._ir.NAME, ", ".join(self.target.executors))
            )
        self._ir.import_runtime()
        self._ir.import_compiler()
        import_python(self.target.libraries)
        with suppress(Exception):  # an export tells what is wrong with the compiler
            triple_here()
        check_pass_config(self.target.pass_config, self.target.name)
        self.target.preparation.find()
        missing += [
            "check %s: switched off by the target: %s" % off for off in self.target.without_checks.items()
        ]
        self.description = {
            "ir": self._ir.NAME,
            "versions": self._ir.versions(),
            "executors": names,
            "not_checked": missing,
            "name": self.target.name,
            "named_in_tvm": self.target.named_in_tvm,
            "tvms_partition": self.target.tvms_partition,
            "deterministic": self.target.deterministic,
            "opt_level": self.target.opt_level,
            "pass_config": plain(self.target.pass_config),
            "prepare": self.target.preparation.declared,
            "strict_views": self.target.strict_views,
            "without_checks": list(self.target.without_checks),
            "precision": self.target.precision,
            "runtime_libraries": self._runtime_libraries(bool(config.get("elsewhere"))),
            "files": self.loaded_files(),
        }

    def first_steps(self, reporter: Reporter) -> Iterator[None]:
        """Partitions the simplest graph, and builds it for an executor."""
        job = {
            "inputs": [], "constants": {}, "executors": self.description["executors"][:1],
            "folder": tempfile.gettempdir(),
        }
        run = TargetRun(self._ir, self.target, warming.simplest(), job, reporter)
        run.regions()
        yield
        run.export(run.executors[0])
        yield

    def _runtime_libraries(self, elsewhere: bool) -> list[str]:
        """Returns the libraries for the loader. elsewhere: whether it runs on another machine, where the
        paths are valid as they are, and the target's own libraries are not needed."""
        if elsewhere:
            return list(self.target.runtime_libraries)
        libraries = (*self.target.libraries, *self.target.runtime_libraries)
        return [os.path.abspath(p) if is_path(p) else p for p in libraries]

    def run(self, job: Mapping[str, Any], reporter: Reporter) -> None:
        if job["kind"] == "partitions":
            survey(self._ir, self.target, job["graphs"], job.get("groups", []), reporter)
            self.tell_loaded_files(reporter)
            return
        if job["kind"] == "patterns":
            self._patterns(job["graphs"], reporter)
            return
        if job["kind"] == "alone":
            self._alone(job, reporter)
            self.tell_loaded_files(reporter)
            return
        if job["kind"] == "describe":
            describing.describe(_lowering(self._ir, job), self.target, job, reporter)
            return
        graph = Graph.from_dict(job["graph"])
        kind = UnionRun if job.get("merged") else TargetRun
        run = kind(_lowering(self._ir, job), self.target, graph, job, reporter)
        poison_allocations()
        self._observe(run, job)
        if job.get("tells_code"):
            tell_files(reporter, run.files_read())

    def _observe(self, run: TargetRun, job: Mapping[str, Any]) -> None:
        checks, in_question = job["checks"], "known_code" in job
        for check in CHECKS:
            if check.observe is None or check.id not in checks:
                continue
            if in_question and not check.partition_stage:
                if run.is_known():
                    return
                in_question = False
            run.make(check.id, check.observe)
            if run.nothing_to_judge:
                # Building and running it would only judge TVM.
                return
            if run.nothing_offloaded:
                # The same holds for checks of generated code. Only the partitioned main is judged.
                checks = partition_stage()

    def _patterns(self, graphs: list[Any], reporter: Reporter) -> None:
        """Sends the target's patterns and the names of its composites.

        The graphs are partitioned first, since some targets register their patterns only then.
        """
        regions: list[Mapping[str, Any]] = []
        given = self._ir.given
        most = given.table()
        for entry in graphs:
            given.restart()
            job = {"inputs": [], "constants": entry["constants"]}
            run = TargetRun(self._ir, self.target, Graph.from_dict(entry["graph"]), job, reporter)
            try:
                regions += run.regions()["regions"]
            except Exception as e:
                run.failed(e)
            most = max(most, given.table(), key=len)
        given.keep(most)
        composites = sorted({name for region in regions for name in region["composites"]})
        names = [self.target.patterns, *(region["compiler"] for region in regions)]
        tables = pattern_tables.find(self._ir, names, composites, self._tables_of_tvm[self._ir.NAME])
        described = [entry for table in tables for entry in pattern_tables.described(self._ir, table)]
        declared = self.target.declared_patterns
        found: dict[str, Any] = {"composites": composites, "patterns": described}
        if declared and not self._ir.pattern_table(declared):
            found["missing"] = {"declared": declared, "registered": self._ir.pattern_tables()}
        reporter.send({"fact": "patterns", "executor": None, "value": found})

    def _alone(self, job: Mapping[str, Any], reporter: Reporter) -> None:
        """Tries one pattern alone on each graph, and sends the results (see `matching.alone`)."""
        entries = job["graphs"]
        table = self._ir.pattern_table(job["table"])
        for number, entry in enumerate(entries):
            reporter.send({"fact": "begun", "executor": None, "value": number})
            graph = Graph.from_dict(entry["graph"])
            reporter.stage("partition")
            try:
                module, _ = self._ir.lower(graph, entry["constants"])
                if number == 0 and (not table or job["table"] == GIVEN):
                    # As in _patterns, partitioning may register the patterns, or give them to the pass.
                    self._ir.given.restart()
                    with configured(self.target.pass_config):
                        self.target.partition(module)
                    table = self._ir.pattern_table(job["table"])
                value = matching.alone(self._ir, module, table[job["position"]][2])
            except Exception as e:
                reporter.send({"raised": describe_exception(e), "stage": reporter.stage_name})
                continue
            reporter.send({"fact": "alone", "executor": None, "value": dict(value, number=number)})
