"""Puts one graph through the workers, and gathers what they say of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..checks import CHECKS, selection
from ..config import plan
from ..core.graph import Graph
from ..core.job_report import JobReport
from ..core.union import only
from ..evidence.evidence import Evidence
from ..reference_kernels import Bounded
from ..storage.scratch import Scratch
from .time_limit import TimeLimit
from .workers import Workers

#: opt_level of the reference build: TVM's default would optimise more and cost twice as much.
REFERENCE_OPT_LEVEL = 1

_TVM_TOO = "where TVM's own LLVM build fails it in the same way, it is not held against the target"

#: Makes of what is known by then, which nodes are offloaded among it, the outputs of each run.
Expected = Callable[[Evidence], list[list[Bounded]]]


class Gatherer:
    """limit: of a stage of the target's. `close` after use."""

    def __init__(self, workers: Workers, limit: TimeLimit) -> None:
        self._workers = workers
        self._limit = limit
        self._scratch: Scratch | None = None
        #: How many jobs there were.
        self.count = 0
        self._left: frozenset[str] | None = None

    def close(self) -> None:
        if self._scratch is not None:
            self._scratch.remove()
        self._scratch = None

    def gather(
        self,
        graph: Graph,
        job: dict[str, Any],
        expected: Expected,
        executor: str | None = None,
        llvm: bool = True,
    ) -> Evidence:
        """What target, reference and loader make of a job; `expected` is called while they work, with
        what is known by then: which nodes are offloaded.

        job: "inputs" (sets of them), "constants", "checks" (ids; by default those made on every graph)
        and, where it is not the graph that is lowered, "module" (TVM's JSON). executor: the only one; None:
        all of them. llvm: whether the reference is asked."""
        workers = self._workers
        folder = self._new_folder()
        job = {
            "checks": list(plan.made(chosen=False)), **job,
            "kind": "examine", "graph": graph.to_dict(), "folder": str(folder),
            "executors": workers.executors if executor is None else [executor],
            "quick": executor is not None, "partition_only": bool(workers.partition_only),
        }
        if workers.partition_only:
            job["checks"] = list(selection.partition_stage(job["checks"]))
        job["checks"] = [check for check in job["checks"] if check not in workers.without_checks]
        evidence = self._compile(graph, job, expected, llvm)
        artifacts = dict(evidence.target.facts("artifact"))
        if artifacts:
            self._load(evidence, job, artifacts, folder)
        if evidence.target.left_running or evidence.loader.left_running:
            evidence.left_by_tvm = self._left_by_tvm(evidence, job, folder)
        if not evidence.nothing_offloaded:
            workers.companions.settle(workers.reference, job, evidence)
        if llvm:
            self._confirm(evidence, job)
        loader_fails = llvm and (evidence.loader.died or any(evidence.loader.raised()))
        found = _found_too(evidence)
        if loader_fails or found:
            evidence.deployed = self._deploy_reference(evidence, job, folder)
            for check in found - _found_too(evidence):
                evidence.loader.withdraw((), check, _TVM_TOO)
        shutil.rmtree(folder, ignore_errors=True)
        return evidence

    def _new_folder(self) -> Path:
        self._scratch = self._scratch or Scratch()
        self.count += 1
        return self._scratch.new_folder(str(self.count))

    def _compile(
        self, graph: Graph, job: dict[str, Any], expected: Expected, llvm: bool
    ) -> Evidence:
        """What target and reference make of it. Where the target takes only some graphs of a union, the
        evidence, and `job` from then on, is of those."""
        workers = self._workers
        larger = workers.companions.prepare(job, graph)
        workers.target.submit(job, self._limit.seconds)
        report = workers.target.wait_for("regions")
        for _, kept in report.facts("kept"):
            graph = only(graph, kept["positions"])
            job["inputs"] = [{s.name: given[s.name] for s in graph.inputs} for given in job["inputs"]]
            job["constants"] = {s.name: job["constants"][s.name] for s in graph.constants}
            job["graph"] = graph.to_dict()
        evidence = Evidence(
            graph, job["inputs"], job["constants"], [], report, JobReport(),
            deterministic=workers.deterministic, larger=larger, partition_only=bool(workers.partition_only),
            without_checks=workers.without_checks, strict_views=workers.strict_views,
        )
        if evidence.target.nothing_to_judge:
            # The reference would be built for nothing.
            workers.target.collect()
        else:
            if llvm:
                usual = {"executor": workers.executors[0], "opt_level": REFERENCE_OPT_LEVEL}
                workers.reference.submit({**job, **usual})
            try:
                evidence.expected = expected(evidence)
                if larger is not None:
                    workers.companions.expect(larger, evidence)
            finally:
                workers.target.collect()
                if llvm:
                    evidence.reference = workers.reference.collect()
        self._limit.learn(evidence.target)
        return evidence

    def _load(
        self, evidence: Evidence, job: dict[str, Any], artifacts: dict[str, str], folder: Path
    ) -> None:
        """What the loader makes of what was exported, and what the companions make of it before and after."""
        workers, companions = self._workers, self._workers.companions
        handed = evidence.target.handed()
        if evidence.target.died is None:
            companions.compile(workers.target, workers.reference, job, evidence, folder, self._limit.seconds)
            handed["together"] = companions.hand_twin(evidence, handed.get("together", {}))
            companions.load_without_libraries(job, artifacts, evidence, self._limit.seconds)
        checks = selection.loaded(job["checks"], evidence.host_runs_some)
        asked = {"inputs": job["inputs"], "checks": checks, "artifacts": artifacts, "handed": handed}
        workers.loader.submit({**asked, "deterministic": workers.deterministic}, self._limit.seconds)
        evidence.loader = workers.loader.collect()
        evidence.runtime_only = bool(workers.loader.description.get("runtime_only"))
        self._limit.learn(evidence.loader)
        companions.watch(job, artifacts, evidence, self._limit.seconds)
        companions.time(workers.reference, workers.loader, job, evidence, folder / "timed.so")
        companions.supersede(workers.loader, artifacts, evidence, self._limit.seconds)

    def describe(self, graph: Graph, constants: Any, stages: Sequence[str], module: str | None) -> JobReport:
        """What the target makes of a graph, as text (worker/describing.py). stages: how far to go.
        module: TVM's JSON of what is lowered, where that is not the graph."""
        job = {
            "kind": "describe", "graph": graph.to_dict(), "constants": constants, "stages": list(stages),
            "executors": self._workers.executors, **({} if module is None else {"module": module}),
        }
        self._workers.target.submit(job, self._limit.seconds)
        return self._workers.target.collect()

    # --- whose fault it is ---------------------------------------------------------------------

    def _confirm(self, evidence: Evidence, job: dict[str, Any]) -> None:
        """What fails under another executor than the reference's is tried there with LLVM, and where TVM runs
        operators itself also as the target is built, at its opt_level and with its pass-config: some of TVM's
        own passes compute something else there."""
        workers = self._workers
        failed = {m.get("executor") for m in evidence.target.raised()}
        if evidence.target.died:
            failed = set(workers.executors)
        usual: dict[str, Any] = {"opt_level": REFERENCE_OPT_LEVEL, "pass_config": {}}
        asked = [(e, usual) for e in workers.executors[1:] if e in failed][:1]
        if evidence.host_runs_some and workers.built != usual:
            if not failed and any(any(c.judge(evidence)) for c in CHECKS if c.id == "numerics"):
                failed = set(workers.executors)
            asked += [(e, workers.built) for e in workers.executors if e in failed][:1]
        for executor, built in asked:
            said = workers.ask_reference({**job, **built, "executor": executor})
            evidence.confirmation = said
            if said.died or any(said.raised()):
                break

    def _left_by_tvm(self, evidence: Evidence, job: dict[str, Any], folder: Path) -> frozenset[str]:
        """Names of the programs that are left running where LLVM builds and exports the graph: they are the
        compiler's."""
        if self._left is None:
            asked = {"graph": evidence.graph.to_dict(), "executor": self._workers.executors[0]}
            export = {"opt_level": REFERENCE_OPT_LEVEL, "export": str(folder / "left.so"), "checks": []}
            said = self._workers.ask_reference({**job, **asked, **export})
            self._left = frozenset(p["name"] for p in said.left_running)
        return self._left

    def _deploy_reference(self, evidence: Evidence, job: dict[str, Any], folder: Path) -> JobReport:
        """What a loader makes of LLVM's own artifact, under the executors the target's fails under: parts
        of TVM are not in its runtime library. It has none of the target's, which may do anything to it."""
        workers = self._workers
        failed = [m["executor"] for m in evidence.loader.raised() if m.get("executor")][:1]
        if not failed and not evidence.loader.died:
            findings = (f for check in CHECKS if check.tvm_too for f in check.judge(evidence))
            failed = [e for f in findings if (e := f.details.get("executor")) in workers.executors]
        artifacts: dict[str, str] = {}
        # The same inputs are views.
        handed: dict[str, Any] = {"views": evidence.target.handed().get("views", {})}
        for executor in dict.fromkeys(failed or workers.executors[:1]):
            path = folder / f"reference_{executor}.so"
            said = workers.ask_reference(
                {**job, "executor": executor, "opt_level": REFERENCE_OPT_LEVEL, "export": str(path)}
            )
            if path.exists():
                artifacts[executor] = str(path)
                for check, by_executor in said.handed().items():
                    handed.setdefault(check, {}).update(by_executor)
        if not artifacts:
            return JobReport()
        loader = workers.companions.bare_loader(evidence) or workers.loader
        checks = selection.loaded_of_llvm(job["checks"])
        asked = {"inputs": job["inputs"], "checks": checks, "artifacts": artifacts, "handed": handed}
        loader.submit({**asked, "of_llvm": True}, self._limit.seconds)
        return loader.collect()


def _found_too(evidence: Evidence) -> set[str]:
    """Ids of the checks that find something that may be TVM's own doing."""
    made = (c for c in CHECKS if c.tvm_too and c.id not in evidence.without_checks)
    return {check.id for check in made if any(check.judge(evidence))}
