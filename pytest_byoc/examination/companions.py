"""What some checks need beside the examination of a graph: other graphs, and other workers."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..checks import CHECKS, dynamic, non_op_nodes, overrun
from ..config import plan
from ..core.graph import Graph
from ..core.job_report import JobReport
from ..evidence.comparison import compare
from ..evidence.evidence import Evidence
from ..generation import data, variants
from ..oracle import evaluation
from ..reference_kernels import Precision
from .client import Worker, WorkerError
from .outcome import WRONG_RESULT

#: Checks made for compiling a graph once more, elsewhere.
_ANEW = ("offload", "numerics", "reproducible")
#: Of checks whose graph or build is not the one that the reference is made of: what they record.
_FACTS = {
    "aot": ("aot",), "unbound": ("unbound",), "non-op-nodes": ("non_op_nodes",), "batches": ("batch_large",),
    "dynamic": ("dynamic",), "together": ("together_other", "together_behind", "together_superseded"),
}
#: Checks that need the graph for a larger batch.
_LARGER = frozenset(("batches", "dynamic"))
_SHARED = "TVM's own build is outside the bound there too"


class Companions:
    """For one target. `anew` starts another worker of the target's, `bare` a loader that is given none of its
    libraries (None: it has none), `watched` one whose malloc looks at the ends of what it hands out; they are
    started when they are first needed. built: how the target is, for jobs of the reference."""

    def __init__(
        self, anew: Callable[[], Worker], bare: Callable[[], Worker] | None, watched: Callable[[], Worker],
        built: Mapping[str, Any], precision: Precision,
    ) -> None:
        self._start = {"anew": anew, "bare": bare, "watched": watched}
        self._workers: dict[str, Worker] = {}
        self._built = built
        self._precision = precision

    def _worker(self, name: str, check: str, evidence: Evidence) -> Worker | None:
        """The worker, started if need be; None, the check being recorded as not made, where it can't be had:
        a device, say, that one process has to itself."""
        start = self._start[name]
        if name not in self._workers and start is not None:
            worker = start()
            try:
                worker.ready()
            except WorkerError as e:
                evidence.target.withdraw((), check, "there is no second worker: %s" % str(e).splitlines()[0])
                return None
            self._workers[name] = worker
        return self._workers.get(name)

    # --- before and after the target is at work ---------------------------------------------------

    def prepare(self, job: dict[str, Any], graph: Graph) -> Evidence | None:
        """Adds to a job what some checks need: the graph with other constants, and for a larger batch; the
        latter's evidence."""
        twin = variants.twin(graph) if "together" in job["checks"] else None
        if twin is not None and twin.inputs == graph.inputs:
            job["twin"] = _described(twin)
        larger = variants.larger(graph) if _LARGER.intersection(job["checks"]) else None
        if larger is None:
            return None
        job["larger"] = given = _described(larger)
        return Evidence(larger, [given["inputs"]], given["constants"], [], JobReport(), JobReport())

    def compile(
        self,
        target: Worker,
        reference: Worker,
        job: Mapping[str, Any],
        evidence: Evidence,
        folder: Path,
        limit: float,
    ) -> None:
        """Has the graph compiled once more by another worker, for `reproducible`, and its twin, for
        `together`. One after the other: a device may serve one process at a time."""
        if "reproducible" in job["checks"]:
            worker = self._worker("anew", "reproducible", evidence)
            if worker is not None:
                evidence.again = _compiled(worker, job, folder / "anew", limit, checks=_ANEW)
        twin = variants.twin(evidence.graph) if "together" in job["checks"] else None
        if twin is None:
            return
        given = job.get("twin") or _described(twin)
        inputs, constants = given["inputs"], given["constants"]
        asked = {**given, "inputs": [inputs]}
        report = _compiled(target, job, folder / "twin", limit, checks=("offload", "roundtrip"), **asked)
        if report.died or any(report.raised()):
            reference.submit({**job, **asked, **self._built, "executor": job["executors"][0]})
            said = reference.collect()
            if said.died or any(said.raised()):
                evidence.target.withdraw((), "together", "TVM's own build of the other graph fails too")
                return
        if report.nothing_offloaded:
            evidence.target.withdraw((), "together", "the target takes nothing of the other graph")
            return
        evidence.twin = Evidence(twin, [inputs], constants, [], report, JobReport())
        self.expect(evidence.twin, evidence)

    def hand_twin(self, evidence: Evidence, behind: Mapping[str, Any]) -> dict[str, Any]:
        """What the loader's half of `together` needs, by executor. behind: artifacts that its other half has
        left."""
        twin = evidence.twin
        if twin is None:
            return {}
        inputs, found = twin.inputs[0], dict(twin.target.facts("artifact"))
        return {e: {"path": p, "inputs": inputs, "behind": behind.get(e)} for e, p in found.items()}

    def load_without_libraries(
        self, job: Mapping[str, Any], artifacts: Mapping[str, str], evidence: Evidence, limit: float
    ) -> None:
        """Has the artifacts loaded where the target's libraries are missing, for `missing-library`."""
        evidence.bare = self._apart("bare", "missing-library", job, artifacts, evidence, limit)

    def bare_loader(self, evidence: Evidence) -> Worker | None:
        """A loader that is given none of the target's libraries, for what is not the target's; None where the
        usual one has none either, or where there can be no other."""
        return self._worker("bare", "missing-library", evidence)

    def watch(
        self, job: Mapping[str, Any], artifacts: Mapping[str, str], evidence: Evidence, limit: float
    ) -> None:
        """Has the artifacts run where malloc watches, for `overrun`, if TVM itself runs nothing of
        them. Where they kill the loader too, that counts only if malloc says why."""
        if evidence.host_runs_some:
            return
        report = self._apart("watched", "overrun", job, artifacts, evidence, limit)
        printed = str((report.end or {}).get("printed", ""))
        if evidence.loader.died is None or overrun.told_by_malloc(printed):
            evidence.watched = report

    def supersede(
        self, loader: Worker, artifacts: Mapping[str, str], evidence: Evidence, limit: float
    ) -> None:
        """Writes the twin's artifacts where the graph's own were, and has them loaded, for `together`: nobody
        needs the graph's any more."""
        twin = evidence.twin
        if twin is None or evidence.loader.died or any(evidence.loader.raised()):
            return
        for executor, path in twin.target.facts("artifact"):
            shutil.copyfile(path, artifacts[executor])
        loader.submit({"inputs": twin.inputs, "checks": ["roundtrip"], "artifacts": artifacts}, limit)
        twin.loader = loader.collect()
        evidence.loader.messages += [
            {"fact": "together_superseded", "executor": executor, "value": arrays}
            for executor, arrays in twin.loader.facts("reloaded")
        ]

    def _apart(
        self, name: str, check: str, job: Mapping[str, Any], artifacts: Mapping[str, str],
        evidence: Evidence, limit: float,
    ) -> JobReport:
        """A worker's report on one check of artifacts; an empty one where the check is not to be made."""
        worker = self._worker(name, check, evidence) if check in job["checks"] else None
        if worker is None:
            return JobReport()
        worker.submit({"inputs": job["inputs"], "checks": [check], "artifacts": artifacts}, limit)
        return worker.collect()

    def time(
        self, reference: Worker, loader: Worker, job: Mapping[str, Any], evidence: Evidence, path: Path
    ) -> None:
        """Measures how long a run of the target's artifact takes, and of LLVM's of the same opt_level."""
        executor = job["executors"][0]
        target = dict(evidence.target.facts("artifact")).get(executor)
        if plan.SPEED not in job["checks"] or target is None or evidence.loader.died:
            return
        asked = {**self._built, "executor": executor, "export": str(path)}
        reference.submit({**job, **asked, "inputs": job["inputs"][:1], "checks": []})
        reference.collect()
        if path.exists():
            artifacts = {"target": target, "llvm": str(path)}
            loader.submit({"inputs": job["inputs"], "time": artifacts, "executor": executor})
            for _, seconds in loader.collect().facts("seconds"):
                evidence.speed = {name: statistics.median(found) for name, found in seconds.items()}
        if not evidence.speed:
            reason = "LLVM's artifact is not built" if not path.exists() else "the measurement ended early"
            evidence.loader.withdraw((), plan.SPEED, reason)

    def settle(self, reference: Worker, job: Mapping[str, Any], evidence: Evidence) -> None:
        """Withdraws what a check has found to be wrong where LLVM's build of the same is wrong too."""
        unbound = evidence.graph.unbound()
        given = {**evidence.inputs[0], **evidence.constants}
        variants: dict[str, tuple[dict[str, Any], Evidence | None]] = {
            "aot": ({"executor": "aot"}, evidence),
            "unbound": ({"graph": unbound.to_dict(), "inputs": [given], "constants": {}}, evidence),
            "non-op-nodes": ({"executor": non_op_nodes.EXECUTOR}, evidence),
            "batches": _asked(evidence.larger),
            "dynamic": _asked_open(evidence),
            "together": _asked(evidence.twin),
        }
        for check in CHECKS:
            changes, judged = variants.get(check.id, ({}, None))
            if judged is None or not any(f.outcome == WRONG_RESULT for f in check.judge(evidence)):
                continue
            usual = {**self._built, "executor": job["executors"][0]}
            reference.submit({**job, **usual, **changes})
            for _, value in reference.collect().facts("outputs"):
                wanted = judged.expected[value["set"]]
                if any(
                    a.shape != b.shape or compare(a, b).outside.any() for a, b in zip(value["arrays"], wanted)
                ):
                    for report in (evidence.target, evidence.loader):
                        report.withdraw(_FACTS[check.id], check.id, _SHARED)

    def expect(self, companion: Evidence, evidence: Evidence) -> None:
        """Values and bounds of a companion's outputs. Of both the target takes the same."""
        values = {**companion.constants, **companion.inputs[0]}
        taken = evidence.may_be_offloaded()
        companion.expected = [evaluation.evaluate(companion.graph, values, self._precision, taken)]


def _described(graph: Graph) -> dict[str, Any]:
    """A graph, its constants and a set of inputs, for a job."""
    return {"graph": graph.to_dict(), "inputs": data.inputs(graph, 0), "constants": data.constants(graph)}


def _asked(companion: Evidence | None) -> tuple[dict[str, Any], Evidence | None]:
    """A job for another graph, and what that is judged by."""
    if companion is None:
        return {}, None
    graph, constants = companion.graph.to_dict(), companion.constants
    return {"graph": graph, "inputs": companion.inputs, "constants": constants}, companion


def _asked_open(evidence: Evidence) -> tuple[dict[str, Any], Evidence | None]:
    """A job for the graph with its batch left open, and what that is judged by."""
    if evidence.larger is None:
        return {}, None
    both = [evidence, evidence.larger]
    inputs, expected = [e.inputs[0] for e in both], [e.expected[0] for e in both]
    asked = {"inputs": inputs, "batched": evidence.graph.differing(evidence.larger.graph)}
    return {**asked, "executor": dynamic.EXECUTOR}, replace(evidence, inputs=inputs, expected=expected)


def _compiled(
    worker: Worker, job: Mapping[str, Any], folder: Path, limit: float, checks: Sequence[str], **more: Any
) -> JobReport:
    """The worker's report on a job like another one, in a folder of its own and with fewer checks."""
    folder.mkdir()
    asked = {k: v for k, v in job.items() if k not in ("larger", "twin")}
    worker.submit({**asked, "folder": str(folder), "checks": list(checks), **more}, limit)
    return worker.collect()
