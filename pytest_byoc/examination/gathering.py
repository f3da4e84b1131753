"""Sends one graph to the workers, gathers the evidence, and decides whether a fault is TVM's."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..checks import CHECKS, selection
from ..config import plan
from ..config.effort import Effort
from ..core.graph import Graph
from ..core.job_report import JobReport
from ..core.jobs import Job, OpenGraph, changed, narrowed
from ..core.union import only
from ..evidence.evidence import Evidence, OpenEvidence
from ..evidence.judging import Judgement, judge
from ..oracle import evaluation
from ..reference_kernels import FULL
from ..storage.scratch import Scratch
from .companions import Companions
from .decision import reference_fault
from .on_device import play, runs_of
from .returning_worker import DeviceLost
from .shortcuts import takes_shortcuts
from .since import Since
from .subject import Subject
from .time_limit import TimeLimit
from .timing import measure
from .workers import Workers

#: opt_level of the reference build: TVM's default would optimise more and cost twice as much.
REFERENCE_OPT_LEVEL = 1

_TVM_TOO = "where TVM's own LLVM build fails it in the same way, it is not held against the target"
_USUAL: dict[str, Any] = {"opt_level": REFERENCE_OPT_LEVEL, "pass_config": {}}


class Gatherer:
    """Gathers evidence with the workers of one target. Call `close` at the end.

    limit: the time limit of a stage of the target. since: what is known of earlier sessions. tvms_too: the
    checks that TVM's own artifact has failed like the target's; where no others fail, TVM is asked at once.
    """

    def __init__(
        self, workers: Workers, limit: TimeLimit, since: Since, tvms_too: set[str]
    ) -> None:
        self._workers = workers
        self._limit = limit
        self._since = since
        self._tvms_too = tvms_too
        self._companions = Companions(workers)
        self._scratch: Scratch | None = None
        #: The number of examinations so far.
        self.count = 0
        self._left: frozenset[str] | None = None

    def close(self) -> None:
        if self._scratch is not None:
            self._scratch.remove()
        self._scratch = None

    def try_device(self, graph: Graph) -> str:
        """Has the device run a graph that LLVM has built, with each executor.

        Returns what is wrong, in words; "" where nothing is, so that graphs can be examined there.
        """
        effort = plan.every_graph()
        subject, folder = Subject.of(graph, effort), self._new_folder()
        job = self._job(subject, effort, folder)
        for executor in self._workers.executors:
            evidence = Evidence(
                graph, job["inputs"], job["constants"], [], JobReport(), JobReport(), deterministic=True
            )
            self._expect(evidence, subject)
            try:
                said = evidence.confirmation = self._llvm_on_device(job, executor)
            except DeviceLost as e:
                return str(e)
            wrong = f"the process {said.ended}" if said.died else reference_fault(evidence)
            if wrong:
                text = str((said.end or {}).get("printed", "")).strip()
                return f"{wrong} (executor {executor})" + (f". It printed:\n{text}" if text else "")
        shutil.rmtree(folder, ignore_errors=True)
        return ""

    def gather(self, subject: Subject, effort: Effort) -> tuple[Evidence, Judgement]:
        """Returns the evidence on a subject, and the findings of the checks in it.

        Target and reference work at the same time, and the host calculates the bounds meanwhile. If
        there is no finding and nothing raises, the evidence is judged only once.
        """
        folder = self._new_folder()
        job = self._job(subject, effort, folder)
        self._since.ask(job, subject, effort)
        evidence, job = self._compile(subject, job, effort)
        try:
            judgement = self._run(evidence, job, effort)
        except DeviceLost as e:
            evidence.lost, judgement = str(e), Judgement((), ())
        shutil.rmtree(folder, ignore_errors=True)
        return evidence, judgement

    def _run(self, evidence: Evidence, job: Job, effort: Effort) -> Judgement:
        """Has the artifacts run where they run, and judges the evidence. Raises DeviceLost."""
        play(evidence.target, self._workers.loader, self._seconds(job))
        artifacts = dict(evidence.target.facts("artifact"))
        if artifacts and not self._workers.by_runner:
            self._load(evidence, job, artifacts)
        elif artifacts:
            measure(self._workers, job, evidence, self._seconds(job))
        if evidence.target.left_running or evidence.loader.left_running:
            evidence.left_by_tvm = self._left_by_tvm(job)
        judgement = judge(evidence)
        if (judgement.findings or evidence.troubled) and self._asks_tvm(effort, judgement):
            judgement = self._attribute(evidence, job, judgement, effort.with_llvm)
        return judgement

    def _asks_tvm(self, effort: Effort, judgement: Judgement) -> bool:
        # On the way of shrinking only the failure that is shrunk counts.
        on_a_look = effort.only_looks and bool(judgement.findings)
        return effort.asks_tvm or (on_a_look and judgement.failing() <= self._tvms_too)

    def _seconds(self, job: Job) -> float:
        """Returns the time limit of a stage on the graph of a job."""
        return self._limit.of(len(job["graph"]["nodes"]))

    def _new_folder(self) -> Path:
        self._scratch = self._scratch or Scratch()
        self.count += 1
        return self._scratch.new_folder(str(self.count))

    def _job(self, subject: Subject, effort: Effort, folder: Path) -> Job:
        workers = self._workers
        checks = effort.checks
        if workers.partition_only:
            checks = selection.partition_stage(checks)
        checks = tuple(check for check in checks if check not in workers.without_checks)
        fast = effort.only_looks
        job: Job = {
            "kind": "examine", "graph": subject.graph.to_dict(), "inputs": list(subject.inputs),
            "constants": dict(subject.constants), "checks": list(checks), "folder": str(folder),
            "executors": workers.executors_for(subject.graph, effort), "fast_build": fast,
            "merged": effort.merged,
            "one_source": effort.merged or (fast and takes_shortcuts(subject.graph)),
            "partition_only": bool(workers.partition_only),
        }
        if subject.module is not None:
            job["module"] = subject.module
        if subject.model:
            # Its graph describes it, but is not what is lowered, so nothing can be derived from it.
            job["model"] = subject.model
            if subject.opened is not None:
                job["openings"], job["tried_openings"] = [_described(subject.opened)], 1
            return job
        twin, larger = self._companions.others(subject.graph, checks)
        if twin is not None:
            job["twin"] = twin
        if larger is not None:
            job["larger"] = larger
        if effort.openings and subject.module is None:
            job["openings"] = self._companions.openings(subject.graph, checks)
            job["tried_openings"] = effort.openings
        if effort.equivalents and subject.module is None:
            job["equivalents"] = self._companions.equivalents(subject.graph, checks, subject.inputs[0])
            job["tried_equivalents"] = effort.equivalents
        return job

    def _compile(self, subject: Subject, job: Job, effort: Effort) -> tuple[Evidence, Job]:
        """Returns the evidence of target and reference, and the job.

        If the target offloads something of only some graphs of a union, both are narrowed to those
        graphs.
        """
        workers, graph, llvm = self._workers, subject.graph, effort.with_llvm
        workers.target.submit(job, self._seconds(job))
        report = workers.target.wait_for("known" if "known_code" in job else "regions")
        for _, kept in report.facts("kept"):
            graph = only(graph, kept["positions"])
            job = narrowed(job, graph)
        evidence = Evidence(
            graph, job["inputs"], job["constants"], [], report, JobReport(),
            deterministic=workers.deterministic, larger=self._companions.larger(job),
            openings=[subject.opened] if subject.opened else self._companions.opened(job),
            equivalents=self._companions.rewritten(job),
            partition_only=bool(workers.partition_only), without_checks=workers.without_checks,
            strict_views=workers.strict_views,
            awaits_llvm=not llvm and (job["fast_build"] or not effort.asks_tvm),
            lower_precision=workers.precision != FULL, apart=workers.apart,
            earlier=self._since.taken(subject.graph, effort, report),
        )
        if evidence.target.nothing_to_judge or evidence.earlier is not None:
            # No reference is needed.
            workers.target.collect()
        else:
            if llvm:
                usual = {"executor": workers.executors[0], "opt_level": REFERENCE_OPT_LEVEL}
                workers.reference.submit(changed(job, **usual))
            try:
                self._expect(evidence, subject)
            finally:
                workers.target.collect()
                if llvm:
                    evidence.reference = workers.reference.collect()
            self._companions.expect_opened(evidence)
            self._companions.expect_equivalents(job, evidence)
        self._limit.learn(evidence.target)
        self._since.depend_on(evidence.target, job["folder"])
        return evidence, job

    def _expect(self, evidence: Evidence, subject: Subject) -> None:
        """Calculates the expected outputs; their bounds depend on the nodes that are offloaded."""
        if subject.expected is not None:
            evidence.expected = [list(outputs) for outputs in subject.expected]
            return
        offloaded = evidence.may_be_offloaded()
        for inputs in evidence.inputs:
            values = {**evidence.constants, **inputs}
            evidence.expected.append(
                evaluation.evaluate(evidence.graph, values, self._workers.precision, offloaded)
            )
        if evidence.larger is not None:
            self._companions.expect(evidence.larger, evidence)

    def _load(self, evidence: Evidence, job: Job, artifacts: dict[str, str]) -> None:
        """Loads and runs the artifacts in the loader, and in the companions before and after it."""
        workers, companions, limit = self._workers, self._companions, self._seconds(job)
        passed_on = evidence.target.passed_on()
        behind = passed_on.pop("together", {})
        if evidence.target.died is None:
            companions.compile(job, evidence, limit)
            passed_on["together"] = companions.pass_on_twin(evidence, behind)
            companions.load_without_libraries(job, artifacts, evidence, limit)
            companions.load_without_files(job, artifacts, evidence, limit)
        checks = selection.loaded(job["checks"], evidence.host_runs_some)
        entries = {"inputs": job["inputs"], "checks": checks, "artifacts": artifacts, "passed_on": passed_on}
        workers.loader.submit({**entries, "deterministic": workers.deterministic}, limit)
        evidence.loader = workers.loader.collect()
        self._since.depend_on(evidence.loader, job["folder"])
        evidence.runtime_only = bool(workers.loader.description.get("runtime_only"))
        self._limit.learn(evidence.loader)
        companions.run_guarded(job, artifacts, evidence, limit)
        measure(workers, job, evidence, limit)
        companions.supersede(artifacts, evidence, limit)

    def describe(self, graph: Graph, constants: Any, stages: Sequence[str], module: str | None) -> JobReport:
        """Returns the target worker's report with texts on a graph (`worker/describing.py`).

        stages: the stages that are run. module: TVM's JSON of the module, if it is not lowered from
        the graph.
        """
        job = {
            "kind": "describe", "graph": graph.to_dict(), "constants": constants, "stages": list(stages),
            "executors": self._workers.executors, **({} if module is None else {"module": module}),
        }
        self._workers.target.submit(job, self._limit.of(len(graph.nodes)))
        return self._workers.target.collect()

    # --- whose fault it is ---------------------------------------------------------------------

    def _attribute(self, evidence: Evidence, job: Job, judgement: Judgement, llvm: bool) -> Judgement:
        """Withdraws facts for which TVM's own build has the same fault; returns a new judgement.

        Each step adds to the evidence, and the next one starts from the new judgement.
        """
        if not evidence.nothing_offloaded and self._companions.settle(job, evidence, judgement):
            judgement = judge(evidence)
        if llvm and self._confirm(evidence, job, judgement):
            judgement = judge(evidence)
        loader_fails = llvm and evidence.loader.failed
        failing = _maybe_of_tvm(judgement)
        if not (loader_fails or failing):
            return judgement
        evidence.deployed = self._deploy_reference(evidence, job, judgement)
        judgement = judge(evidence)
        for check in failing - _maybe_of_tvm(judgement):
            # It takes no facts back, on which the judgement rests.
            evidence.loader.withdraw((), check, _TVM_TOO)
            self._tvms_too.add(check)
        return judgement

    def _confirm(self, evidence: Evidence, job: Job, judgement: Judgement) -> bool:
        """Lets LLVM build the graph again, under the conditions in which the target fails.

        It is built for another executor than the reference's, if the target fails with that one,
        and, if TVM runs operators itself, with the target's opt_level and pass-config, since some
        of TVM's own passes change results then. Where a device runs the target's artifacts, it runs
        LLVM's as well. Returns whether anything was built.
        """
        workers = self._workers
        failed = {m.get("executor") for m in evidence.target.raised()}
        if evidence.target.died:
            failed = set(workers.executors)
        if workers.declaration.device.is_foreign and any(evidence.target.facts("artifact")):
            executor = next((e for e in workers.executors if e in failed), workers.executors[0])
            evidence.confirmation = self._llvm_on_device(job, executor)
            return True
        builds = [(e, _USUAL) for e in workers.executors[1:] if e in failed][:1]
        if evidence.host_runs_some and workers.built != _USUAL:
            if not failed and "numerics" in judgement.failing():
                failed = set(workers.executors)
            builds += [(e, workers.built) for e in workers.executors if e in failed][:1]
        for executor, built in builds:
            said = workers.ask_reference(changed(job, **built, executor=executor))
            evidence.confirmation = said
            if said.failed:
                break
        return bool(builds)

    def _llvm_on_device(self, job: Job, executor: str) -> JobReport:
        """Returns the report on LLVM's build of the graph, run where the target's artifacts run."""
        workers = self._workers
        said, path = workers.export_by_llvm(
            job, "llvm_on_device.so", **workers.built, executor=executor, checks=[]
        )
        if not path:
            return said
        report = runs_of(path, executor, job["inputs"])
        play(report, workers.loader, self._seconds(job), of_llvm=True)
        return report

    def _left_by_tvm(self, job: Job) -> frozenset[str]:
        """Returns the names of the programs that LLVM's build and export of a graph leave running.

        They belong to the compiler, so they are determined only once.
        """
        if self._left is None:
            usual = {"executor": self._workers.executors[0], "opt_level": REFERENCE_OPT_LEVEL}
            said, _ = self._workers.export_by_llvm(job, "left.so", **usual, checks=[])
            self._left = frozenset(p["name"] for p in said.left_running)
        return self._left

    def _deploy_reference(self, evidence: Evidence, job: Job, judgement: Judgement) -> JobReport:
        """Loads LLVM's own artifact in a loader, for the executors with which the target's fails.

        It may fail too, since TVM's runtime library lacks parts of TVM. The loader has none of the
        target's libraries, which could cause any fault. Returns its report.
        """
        workers = self._workers
        if workers.by_runner:
            return JobReport()
        failed = [m["executor"] for m in evidence.loader.raised() if m.get("executor")][:1]
        if not failed and not evidence.loader.died:
            findings = (f for f in judgement.findings if f.check in _TVM_TOO_CHECKS)
            failed = [e for f in findings if (e := f.details.get("executor")) in workers.executors]
        artifacts: dict[str, str] = {}
        # The views are made of the same inputs as for the target's artifact.
        passed_on: dict[str, Any] = {"views": evidence.target.passed_on().get("views", {})}
        for executor in dict.fromkeys(failed or workers.executors[:1]):
            said, path = workers.export_by_llvm(
                job, f"reference_{executor}.so", executor=executor, opt_level=REFERENCE_OPT_LEVEL
            )
            if path:
                artifacts[executor] = path
                for check, by_executor in said.passed_on().items():
                    passed_on.setdefault(check, {}).update(by_executor)
        if not artifacts:
            return JobReport()
        loader = self._companions.loader_without_libraries(evidence) or workers.loader
        checks = selection.loaded_of_llvm(job["checks"])
        entries = {"inputs": job["inputs"], "checks": checks, "artifacts": artifacts, "passed_on": passed_on}
        loader.submit({**entries, "of_llvm": True}, self._seconds(job))
        return loader.collect()


def _described(opened: OpenEvidence) -> OpenGraph:
    """Returns an opening of a whole model, whose module has the constants."""
    larger = opened.larger
    return {
        "extents": [*map(list, opened.extents)], "graph": opened.graph.to_dict(),
        "larger": {"graph": larger.graph.to_dict(), "inputs": larger.inputs[0], "constants": {}},
    }


_TVM_TOO_CHECKS = frozenset(check.id for check in CHECKS if check.tvm_too)
#: The checks of which `_attribute` withdraws findings where TVM alone fails in the same way.
MAY_BE_TVMS = _TVM_TOO_CHECKS | {check.id for check in CHECKS if check.variants is not None}


def _maybe_of_tvm(judgement: Judgement) -> set[str]:
    """Returns the ids of the failing checks whose findings TVM itself may cause."""
    return judgement.failing() & _TVM_TOO_CHECKS
