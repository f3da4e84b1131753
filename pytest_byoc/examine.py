"""Puts one graph through the workers and the checks, and comes to a verdict."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reference_kernels import FULL, Bounded, Precision

from . import oracle
from .checks import CHECKS, each_input, overrun, selection
from .claims import Claims
from .companions import Companions
from .decision import decide
from .declarations import TargetDeclaration
from .evidence import Evidence
from .generation import beyond, data
from .generation.systematic import default_case
from .graph import Graph
from .job_report import JobReport
from .levels import MANY
from .operators import OPERATORS
from .outcome import (
    NOT_OFFLOADED,
    ORACLE_SUSPECT,
    PASS,
    Verdict,
)
from .peers import Peers
from .recent import Recent
from .settings import Settings
from .union import only
from .worker.client import Worker, WorkerError

#: After a first hang: limit of a stage as a multiple of the longest that did not hang, and its floor.
HANG_FACTOR = 20.0
HANG_FLOOR = 3.0
#: opt_level of the reference build: TVM's default would optimise more and cost twice as much.
REFERENCE_OPT_LEVEL = 1
#: Environment of a process whose malloc aborts where the ends of a piece have been written over.
_WATCHING = {
    "LD_PRELOAD": " ".join(filter(None, [overrun.LIBRARY, os.environ.get("LD_PRELOAD")])),
    "MALLOC_CHECK_": "3",
}
#: What is told of libraries that a forked process cannot have from its parent.
_THREADS = (
    "the target's libraries loaded once for all graphs: they start threads when they are loaded, which no "
    "forked process has, so that each loads them for itself"
)
#: Verdicts that are given again without a look.
KEPT = 2000


def suspicious(verdict: Verdict) -> bool:
    """Whether what was seen quickly is to be seen in full."""
    return verdict.failed or verdict.outcome == ORACLE_SUSPECT


class Examiner:
    """The workers of one target in one IR. `open` before, `close` after use."""

    def __init__(self, settings: Settings, declaration: TargetDeclaration) -> None:
        self.settings = settings
        self.declaration = declaration
        self.ir: str = ""
        self.name = declaration.name
        self.versions: dict[str, str] = {}
        self.executors: list[str] = []
        self.not_checked: list[str] = []
        self.deterministic = True
        self.opt_level = 0
        self.precision: Precision = FULL
        #: Operators that TVM itself cannot run where an artifact is deployed: its runtime library lacks them.
        self.host_lacks: frozenset[str] = frozenset()
        #: Other processes that examine the same target.
        self.peers = Peers()
        #: Makes a worker of a config, which is then started.
        self.make_worker: Callable[[dict[str, Any]], Worker] = functools.partial(
            Worker, declaration.python, timeout=settings.timeout
        )
        self._workers: dict[str, Worker] = {}
        #: All there ever were: a session that is refused leaves none behind.
        self._started: list[Worker] = []
        self._companions: Companions | None = None
        self._verdicts = Recent[tuple[bytes, tuple[str, ...], bool], Verdict](KEPT)
        self._folder = Path()
        self._count = 0
        self._hung = False
        self._longest = 0.0

    # --- workers -----------------------------------------------------------------------------

    def open(self) -> None:
        """Starts the workers. Raises WorkerError when one can't be had."""
        self._folder = Path(tempfile.mkdtemp(prefix="pytest-byoc-"))
        common = {"ir": self.declaration.ir, "memory": self.settings.memory_bytes}
        target_config = {
            **common,
            "role": "target",
            "target": self.declaration.for_worker(),
            "libraries": self.declaration.libraries,
            "sys_path": self.declaration.sys_path,
            # The same verdict every time; the check `reproducible` has another one.
            "env": {"PYTHONHASHSEED": "0"},
        }
        target = self._worker(target_config)
        if common["ir"] is None:
            # Which IR the target is for is known once it has been imported.
            common["ir"] = target.ready()["ir"]
            reference, loader = self._start_others(common, [])
        elif self.declaration.reference:
            reference, loader = self._start_others(common, [])
            target.ready()
        else:
            target.ready()
            reference, loader = self._start_others(common, [])
        reference.ready()
        said = target.description
        self.ir, self.name = said["ir"], said["name"]
        self.versions, self.executors = said["versions"], said["executors"]
        self.not_checked, self.deterministic = list(said["not_checked"]), said["deterministic"]
        self.opt_level = said["opt_level"]
        self.precision = Precision(**said["precision"])
        self._workers = {"target": target, "reference": reference}
        with_libraries = common
        if said["runtime_libraries"]:
            loader.stop()
            loader = self._loader(common, said["runtime_libraries"])
            if loader.ready()["threads"]:
                loader.stop()
                with_libraries = {**common, "late": True}
                loader = self._loader(with_libraries, said["runtime_libraries"])
                self.not_checked.append(_THREADS)
        self._workers["loader"] = loader
        self._companions = Companions(
            lambda: self._worker({**target_config, "ir": self.ir, "env": {"PYTHONHASHSEED": "1"}}),
            (lambda: self._loader(common, [])) if said["runtime_libraries"] else None,
            lambda: self._loader(with_libraries, said["runtime_libraries"], **_WATCHING),
            self.opt_level, self.precision,
        )
        self._try_partition()
        absent = frozenset((loader.description or loader.ready())["absent"])
        self.host_lacks = frozenset(n for n, op in OPERATORS.items() if absent.intersection(op.calls))
        if not loader.description["runtime_only"]:
            self.not_checked.append(
                "loading with TVM's runtime alone: this TVM has no runtime library, so the loader has "
                "the compiler in memory too"
            )

    def _start_others(self, common: dict[str, Any], libraries: list[str]) -> tuple[Worker, Worker]:
        reference = self._worker({**common, "role": "reference"})
        return reference, self._loader(common, libraries)

    def _loader(self, common: dict[str, Any], libraries: list[str], **env: str) -> Worker:
        functions = sorted({f for op in OPERATORS.values() for f in op.calls})
        config = {"role": "loader", "libraries": libraries, "functions": functions}
        return self._worker({**common, **config, "env": {"TVM_USE_RUNTIME_LIB": "1", **env}})

    def _worker(self, config: dict[str, Any]) -> Worker:
        worker = self.make_worker(config)
        self._started.append(worker)
        worker.start()
        return worker

    def close(self) -> None:
        for worker in self._started:
            worker.stop()
        self._workers = {}
        if self._companions is not None:
            self._companions.close()
        if self._folder != Path():
            shutil.rmtree(self._folder, ignore_errors=True)

    def ask_reference(self, job: dict[str, Any]) -> JobReport:
        """The reference worker's report on a job of any kind."""
        worker = self._workers["reference"]
        worker.submit(job)
        return worker.collect()

    def another_reference(self) -> Worker:
        """One more reference worker, started; the caller stops it."""
        return self._worker({"ir": self.ir, "memory": self.settings.memory_bytes, "role": "reference"})

    def _try_partition(self) -> None:
        """Raises WorkerError for a partition function that returns no IRModule at all."""
        graph = default_case("nn.relu", "float32").graph
        self.claims = Claims(self._workers["target"], self.peers)
        for message in self.claims.report([graph]).raised():
            raised = message["raised"]
            if raised["type"] == "NotAModule":
                raise WorkerError(f"target {self.name}: {raised['message']}")

    # --- one graph ---------------------------------------------------------------------------

    def examine(self, graph: Graph, checks: Sequence[str] | None = None, quick: bool = False) -> Verdict:
        """The verdict on a graph; the same graph is examined once with the same checks.

        checks: ids of those to make; those that are made on every graph, if none are given. quick: whether
        one executor will do where nothing fails, without LLVM's build."""
        checks = tuple(checks or selection.made(chosen=False))
        key = graph.digest, checks, quick
        if key not in self._verdicts:
            claim = self.claims.known(graph)
            if claim is not None and not claim.regions:
                return Verdict(graph, NOT_OFFLOADED, offloaded=claim.offloaded)
            verdict = self.examine_anew(graph, checks, quick)
            self.learn(graph, checks, verdict, quick)
            return verdict
        return self._verdicts[key]

    def knows(self, graph: Graph, checks: Sequence[str], quick: bool = False) -> bool:
        """Whether the graph has been examined in this way."""
        return (graph.digest, tuple(checks), quick) in self._verdicts

    def learn(self, graph: Graph, checks: Sequence[str], verdict: Verdict, quick: bool = False) -> None:
        """Keeps a verdict, to be given again."""
        # What was seen of a failure is needed again; the rest would only fill the memory.
        kept = verdict if verdict.failed else replace(verdict, evidence=None)
        self._verdicts[graph.digest, tuple(checks), quick] = kept

    @property
    def exact(self) -> bool:
        """Whether bounds don't hang on which other nodes are offloaded: no lower precision is declared."""
        return self.precision == FULL

    @property
    def merges(self) -> bool:
        """Whether graphs of a union may be partitioned apart. At smoke nothing else would see several of
        them in one module, nor compile their sources apart."""
        return self.settings.level.quick == MANY and self.claims.several

    def examine_anew(
        self, graph: Graph, checks: Sequence[str], quick: bool = False, merged: bool = False
    ) -> Verdict:
        """The verdict on a graph, with all its evidence, whether or not it is known.

        quick, merged: as in `first_look`. What fails there is examined in full; what passes then has failed
        all the same, unless as merged only."""
        verdict = self.first_look(graph, checks, quick, merged)
        return self.look_again(graph, verdict, checks, quick, merged) if suspicious(verdict) else verdict

    def first_look(
        self, graph: Graph, checks: Sequence[str], quick: bool = False, merged: bool = False
    ) -> Verdict:
        """What is seen of a graph at first: a verdict unless it is suspicious.

        quick: under one executor, the same one for a graph each time, and without the reference. Under all of
        them but without the reference is examined what TVM's own build is known not to do. merged: the
        graph is a union whose graphs are partitioned apart; the verdict is on what is left of it without
        those of which the target takes nothing."""
        if not quick and not beyond.is_beyond(graph, self.ir):
            return self._examine(graph, checks)
        return self._examine(graph, checks, self._one_executor(graph) if quick else None, merged, llvm=False)

    def look_again(
        self, graph: Graph, seen: Verdict, checks: Sequence[str], quick: bool, merged: bool
    ) -> Verdict:
        """The verdict on a graph of which `first_look` has seen something suspicious."""
        if not quick and not beyond.is_beyond(graph, self.ir):
            return seen
        if merged:
            seen = self._examine(seen.graph, checks, self._one_executor(graph), llvm=False)
            if not suspicious(seen):
                return seen
        in_full = self._examine(seen.graph, checks)
        return seen if in_full.outcome == PASS else in_full

    def _one_executor(self, graph: Graph) -> str:
        """Each in turn; the first where a result is empty: Relay's VM calls nothing that has no others."""
        if any(not t.size for node in graph.nodes for t in node.types):
            return self.executors[0]
        return self.executors[zlib.crc32(graph.digest) % len(self.executors)]

    def _examine(
        self, graph: Graph, checks: Sequence[str], executor: str | None = None, merged: bool = False,
        llvm: bool = True,
    ) -> Verdict:
        """executor: the only one; None: all of them. merged: as in `examine_anew`; what the target makes of
        its regions may be compiled as one source. llvm: whether the reference is asked."""
        inputs = data.input_sets(graph, between=each_input.CHECK.id in checks)
        constants = data.constants(graph)
        job = {"inputs": inputs, "constants": constants, "checks": list(checks), "merged": merged}

        def expected(evidence: Evidence) -> list[list[Bounded]]:
            taken = evidence.may_be_offloaded()
            values = [{**evidence.constants, **i} for i in evidence.inputs]
            return [oracle.evaluate(evidence.graph, v, self.precision, taken) for v in values]

        return decide(self.gather(graph, job, expected, executor, llvm))

    def gather(
        self,
        graph: Graph,
        job: dict[str, Any],
        expected: Callable[[Evidence], list[list[Bounded]]],
        executor: str | None = None,
        llvm: bool = True,
    ) -> Evidence:
        """What target, reference and loader make of a job; `expected` is called while they work, with
        what is known by then: which nodes are offloaded.

        job: "inputs" (sets of them), "constants", "checks" (ids; by default those made on every graph)
        and, where it is not the graph that is lowered, "module" (TVM's JSON). executor, llvm: as in
        `_examine`."""
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        job.setdefault("checks", list(selection.made(chosen=False)))
        job = {**job, "kind": "examine", "graph": graph.to_dict()}
        target, reference = self._workers["target"], self._workers["reference"]
        companions = self._companions
        assert companions is not None
        executors = self.executors if executor is None else [executor]
        job = {**job, "folder": str(folder), "executors": executors, "quick": executor is not None}
        larger = companions.prepare(job, graph)
        target.submit(job, self._limit())
        report = target.wait_for("regions")
        for _, kept in report.facts("kept"):
            graph = only(graph, kept["positions"])
            job["inputs"] = [{s.name: given[s.name] for s in graph.inputs} for given in job["inputs"]]
            job["constants"] = {s.name: job["constants"][s.name] for s in graph.constants}
        evidence = Evidence(
            graph, job["inputs"], job["constants"], [], report, JobReport(),
            deterministic=self.deterministic, larger=larger,
        )
        if evidence.nothing_offloaded:
            # Nothing to judge: the reference would be built for nothing.
            target.collect()
        else:
            if llvm:
                reference.submit({**job, "executor": self.executors[0], "opt_level": REFERENCE_OPT_LEVEL})
            try:
                evidence.expected = expected(evidence)
                if larger is not None:
                    companions.expect(larger, evidence)
            finally:
                target.collect()
                if llvm:
                    evidence.reference = reference.collect()
        self._learn(evidence.target)
        artifacts = dict(evidence.target.facts("artifact"))
        if artifacts:
            handed = evidence.target.handed()
            if evidence.target.died is None:
                companions.compile(target, reference, job, evidence, folder, self._limit())
                handed["together"] = companions.hand_twin(evidence, handed.get("together", {}))
                companions.load_without_libraries(job, artifacts, evidence, self._limit())
            loader = self._workers["loader"]
            checks = selection.loaded(job["checks"], evidence.host_runs_some)
            asked = {"inputs": job["inputs"], "checks": checks, "artifacts": artifacts, "handed": handed}
            asked["deterministic"] = self.deterministic
            loader.submit(asked, self._limit())
            evidence.loader = loader.collect()
            self._learn(evidence.loader)
            companions.watch(job, artifacts, evidence, self._limit())
            companions.time(reference, loader, job, evidence, folder / "timed.so")
            companions.supersede(loader, artifacts, evidence, self._limit())
        if not evidence.nothing_offloaded:
            companions.settle(reference, job, evidence)
        if llvm:
            self._confirm(evidence, job)
            loader_fails = evidence.loader.died or any(evidence.loader.raised())
            if loader_fails or any(any(check.judge(evidence)) for check in CHECKS if check.tvm_too):
                evidence.deployed = self._deploy_reference(evidence, job, folder)
        shutil.rmtree(folder, ignore_errors=True)
        return evidence

    def _limit(self) -> float:
        """Seconds for a stage of the target's. Once it has hung, what the others took is the measure:
        a target that hangs on an operator would otherwise cost the full limit for each of its cases.
        """
        limit = self.settings.timeout
        return min(limit, max(HANG_FLOOR, HANG_FACTOR * self._longest)) if self._hung else limit

    def _learn(self, report: JobReport) -> None:
        if report.died == "hung":
            self._hung = True
        elif report.end is not None:
            self._longest = max([self._longest, *report.end["seconds"].values()])

    def _deploy_reference(self, evidence: Evidence, job: dict[str, Any], folder: Path) -> JobReport:
        """What a loader makes of LLVM's own artifact, under the executors the target's fails under: parts
        of TVM are not in its runtime library. It has none of the target's, which may do anything to it."""
        failed = [m["executor"] for m in evidence.loader.raised() if m.get("executor")][:1]
        if not failed and not evidence.loader.died:
            findings = (f for check in CHECKS if check.tvm_too for f in check.judge(evidence))
            failed = [e for f in findings if (e := f.details.get("executor")) in self.executors]
        artifacts: dict[str, str] = {}
        handed: dict[str, Any] = {}
        for executor in dict.fromkeys(failed or self.executors[:1]):
            path = folder / f"reference_{executor}.so"
            said = self.ask_reference(
                {**job, "executor": executor, "opt_level": REFERENCE_OPT_LEVEL, "export": str(path)}
            )
            if path.exists():
                artifacts[executor] = str(path)
                for check, by_executor in said.handed().items():
                    handed.setdefault(check, {}).update(by_executor)
        if not artifacts:
            return JobReport()
        assert self._companions is not None
        loader = self._companions.bare_loader(evidence) or self._workers["loader"]
        checks = selection.loaded(job["checks"], host_runs_some=True)
        asked = {"inputs": job["inputs"], "checks": checks, "artifacts": artifacts, "handed": handed}
        loader.submit(asked, self._limit())
        return loader.collect()

    def _confirm(self, evidence: Evidence, job: dict[str, Any]) -> None:
        """What fails under another executor than the reference's is tried there with LLVM, and where TVM runs
        operators itself also at the target's opt_level: some of TVM's own passes are for the higher ones."""
        failed = {m.get("executor") for m in evidence.target.raised()}
        if evidence.target.died:
            failed = set(self.executors)
        asked = [(e, REFERENCE_OPT_LEVEL) for e in self.executors[1:] if e in failed][:1]
        if evidence.host_runs_some and self.opt_level != REFERENCE_OPT_LEVEL:
            asked += [(e, self.opt_level) for e in self.executors if e in failed][:1]
        for executor, opt_level in asked:
            evidence.confirmation = self.ask_reference(
                {**job, "executor": executor, "opt_level": opt_level}
            )
            if evidence.confirmation.died or any(evidence.confirmation.raised()):
                break
