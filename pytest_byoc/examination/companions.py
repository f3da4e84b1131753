"""Provides the other graphs and the other workers that some checks need (`Check.needs`)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..checks import CHECKS, build_files, dynamic, equivalent, overrun
from ..checks.base import (
    AGAIN,
    EQUIVALENTS,
    GUARDED,
    LARGER,
    OPENINGS,
    TWIN,
    WITHOUT_FILES,
    WITHOUT_LIBRARIES,
    Variant,
    of_other,
)
from ..core.finding import WRONG_RESULT
from ..core.graph import Graph
from ..core.job_report import JobReport
from ..core.jobs import EquivalentGraph, Job, OpenGraph, OtherGraph, changed
from ..core.openings import OpenExtent
from ..evidence.comparison import compare, judged
from ..evidence.evidence import Evidence, OpenEvidence
from ..evidence.judging import Judgement
from ..generation import data, variants
from ..generation.equivalents import equivalents
from ..generation.openings import openings
from ..oracle import evaluation
from .client import Worker, WorkerError
from .on_device import play
from .workers import Workers

#: The checks that are made when another worker compiles a graph once more.
_COMPILED_AGAIN = ("offload", "numerics", "reproducible")
_SHARED = "TVM's own build is outside the bound there too"
_DEADLY = "the process of TVM's own build dies there too"
#: The id of the check that has each of the needs.
_CHECK_OF = {need: check.id for check in CHECKS for need in check.needs}


class Companions:
    """The additional workers of one target. Each is started when it is first needed."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._started: dict[str, Worker | None] = {}
        self._start: dict[str, Callable[[], Worker | None]] = {
            AGAIN: workers.another_target, GUARDED: workers.guarded_loader,
            WITHOUT_LIBRARIES: workers.loader_without_libraries,
            WITHOUT_FILES: workers.loader_without_files,
        }

    def _worker(self, need: str, evidence: Evidence) -> Worker | None:
        """Returns the worker for a need, started if it was not; None where there is none.

        If it can't be started, for example because a device serves only one process, the check is
        recorded as not made.
        """
        if need not in self._started:
            worker = self._start[need]()
            try:
                if worker is not None:
                    worker.ready()
            except WorkerError as e:
                reason = f"there is no second worker: {str(e).splitlines()[0]}"
                evidence.target.withdraw((), _CHECK_OF[need], reason)
                return None
            self._started[need] = worker
        return self._started[need]

    # --- other graphs ---------------------------------------------------------------------------

    def others(
        self, graph: Graph, checks: Sequence[str]
    ) -> tuple[OtherGraph | None, OtherGraph | None]:
        """Returns the graph with other constants, and the graph for a larger batch.

        Each is None where no check needs it or there is no such graph.
        """
        twin = variants.twin(graph) if _need(TWIN, checks) else None
        # The twin of a graph without constants has another batch; only `compile` uses such a twin.
        same = twin is not None and twin.inputs == graph.inputs
        larger = variants.larger(graph) if _need(LARGER, checks) else None
        return _described(twin) if twin and same else None, _described(larger) if larger else None

    def openings(self, graph: Graph, checks: Sequence[str]) -> list[OpenGraph]:
        """Returns the graphs with open extents; none where no check needs them."""
        found = openings(graph, variables=self._workers.ir == "relax") if _need(OPENINGS, checks) else []
        return [
            {"extents": [*map(list, o.extents)], "graph": o.graph.to_dict(), "larger": _described(o.larger)}
            for o in found
        ]

    def opened(self, job: Job) -> list[OpenEvidence]:
        """Returns empty evidence on the job's graphs with open extents."""
        return [
            OpenEvidence(
                [OpenExtent(*fields) for fields in given["extents"]], Graph.from_dict(given["graph"]),
                _empty_evidence(given["larger"]),
            )
            for given in job.get("openings", ())
        ]

    def equivalents(
        self, graph: Graph, checks: Sequence[str], inputs: dict[str, np.ndarray]
    ) -> list[EquivalentGraph]:
        """Returns the graphs that compute the same; none where no check needs them."""
        found = equivalents(graph, self._workers.ir) if _need(EQUIVALENTS, checks) else []
        return [
            {
                "change": e.change, "cuts": e.cuts, "graph": e.graph.to_dict(), "inputs": inputs,
                "constants": data.constants(e.graph),
            }
            for e in found
        ]

    def rewritten(self, job: Job) -> list[tuple[str, Evidence]]:
        """Returns empty evidence on the job's graphs that compute the same."""
        return [(given["change"], _empty_evidence(given)) for given in job.get("equivalents", ())]

    def larger(self, job: Job) -> Evidence | None:
        """Returns empty evidence on the job's graph for a larger batch; None if it has none."""
        return _empty_evidence(job["larger"]) if "larger" in job else None

    def expect_opened(self, evidence: Evidence) -> None:
        """Calculates the outputs for larger extents, where the target has run them or has died."""
        for number, opening in enumerate(evidence.openings):
            tried = evidence.target.died or any(evidence.target.facts(dynamic.fact(number)))
            if tried and not opening.larger.expected:
                self.expect(opening.larger, evidence)

    def expect_equivalents(self, job: Job, evidence: Evidence) -> None:
        """Calculates the outputs of graphs that compute the same, where the target has run them or has
        died; where no bound can judge some of them, LLVM builds the graph too."""
        for number, (_, other) in enumerate(evidence.equivalents):
            if not (evidence.target.died or any(evidence.target.facts(equivalent.fact(number)))):
                continue
            values = {**other.constants, **other.inputs[0]}
            other.expected = [evaluation.evaluate(other.graph, values, self._workers.precision)]
            unjudged = not all(judged(bounded).all() for bounded in other.expected[0])
            if unjudged and any(evidence.reference.facts("outputs")):
                (variant,) = of_other(other)
                usual = {**self._workers.built, "executor": job["executors"][0]}
                other.reference = self._workers.ask_reference(changed(job, **usual, **variant.changes))

    def expect(self, companion: Evidence, evidence: Evidence) -> None:
        """Calculates the outputs of a companion's graph and their bounds.

        The bounds assume that the target offloads the same nodes of both graphs.
        """
        values = {**companion.constants, **companion.inputs[0]}
        offloaded = evidence.may_be_offloaded()
        companion.expected = [
            evaluation.evaluate(companion.graph, values, self._workers.precision, offloaded)
        ]

    # --- before and after the loader is at work ---------------------------------------------------

    def compile(self, job: Job, evidence: Evidence, limit: float) -> None:
        """Lets another worker compile the graph once more, and the target worker compile its twin.

        They work one after the other, because a device may serve only one process at a time.
        """
        if _need(AGAIN, job["checks"]):
            worker = self._worker(AGAIN, evidence)
            if worker is not None:
                evidence.again = _compiled(worker, job, "again", limit, checks=_COMPILED_AGAIN)
                play(evidence.again, self._workers.loader, limit)
        twin = variants.twin(evidence.graph) if _need(TWIN, job["checks"]) else None
        if twin is None:
            return
        given = job.get("twin") or _described(twin)
        inputs, constants = given["inputs"], given["constants"]
        entries = {**given, "inputs": [inputs]}
        target = self._workers.target
        report = _compiled(target, job, "twin", limit, checks=("offload", "roundtrip"), **entries)
        if report.failed:
            usual = {**self._workers.built, "executor": job["executors"][0]}
            said = self._workers.ask_reference(changed(job, **entries, **usual))
            if said.failed:
                evidence.target.withdraw((), "together", "TVM's own build of the other graph fails too")
                return
        if report.nothing_offloaded:
            evidence.target.withdraw((), "together", "the target offloads nothing of the other graph")
            return
        evidence.twin = Evidence(twin, [inputs], constants, [], report, JobReport())
        self.expect(evidence.twin, evidence)

    def pass_on_twin(self, evidence: Evidence, behind: Mapping[str, Any]) -> dict[str, Any]:
        """Returns, by executor, the values that `reload` of the check `together` needs.

        behind: the paths, by executor, that its `observe` has left in the target worker.
        """
        twin = evidence.twin
        if twin is None:
            return {}
        inputs, paths = twin.inputs[0], dict(twin.target.facts("artifact"))
        return {e: {"path": p, "inputs": inputs, "behind": behind.get(e)} for e, p in paths.items()}

    def load_without_libraries(
        self, job: Job, artifacts: Mapping[str, str], evidence: Evidence, limit: float
    ) -> None:
        """Loads the artifacts in a loader without the target's libraries."""
        evidence.without_libraries = self._apart(WITHOUT_LIBRARIES, job, artifacts, evidence, limit)

    def load_without_files(
        self, job: Job, artifacts: Mapping[str, str], evidence: Evidence, limit: float
    ) -> None:
        """Loads the artifacts where the files are hidden that the target wrote elsewhere, if any."""
        hidden = build_files.written(evidence.target)
        if hidden:
            report = self._apart(WITHOUT_FILES, job, artifacts, evidence, limit, hidden=hidden)
            evidence.without_files = report

    def loader_without_libraries(self, evidence: Evidence) -> Worker | None:
        """Returns a loader that has none of the target's libraries.

        None where the usual loader has none either, or where a second one can't be started.
        """
        return self._worker(WITHOUT_LIBRARIES, evidence)

    def run_guarded(self, job: Job, artifacts: Mapping[str, str], evidence: Evidence, limit: float) -> None:
        """Runs the artifacts in a loader in which malloc checks each piece of memory.

        Nothing is run if TVM itself runs a part of the graph. If the artifacts kill the usual
        loader too, the report counts only if malloc printed the cause.
        """
        if evidence.host_runs_some:
            return
        report = self._apart(GUARDED, job, artifacts, evidence, limit)
        printed = str((report.end or {}).get("printed", ""))
        if evidence.loader.died is None or overrun.reported_by_malloc(printed):
            evidence.guarded = report

    def supersede(self, artifacts: Mapping[str, str], evidence: Evidence, limit: float) -> None:
        """Overwrites the graph's artifacts with the twin's, and loads them.

        It is called last, when the graph's own artifacts are no longer needed.
        """
        twin = evidence.twin
        if twin is None or evidence.loader.failed:
            return
        for executor, path in twin.target.facts("artifact"):
            shutil.copyfile(path, artifacts[executor])
        loader = self._workers.loader
        loader.submit({"inputs": twin.inputs, "checks": ["roundtrip"], "artifacts": artifacts}, limit)
        twin.loader = loader.collect()
        evidence.loader.messages += [
            {"fact": "together_superseded", "executor": executor, "value": arrays}
            for executor, arrays in twin.loader.facts("reloaded")
        ]

    def _apart(
        self, need: str, job: Job, artifacts: Mapping[str, str], evidence: Evidence, limit: float,
        **more: Any,
    ) -> JobReport:
        """Returns the report of the separate loader for a need; an empty one where there is none.

        It is empty too where the job does not include the check that needs that loader. more: further
        entries of the loader's job.
        """
        check = _CHECK_OF[need]
        worker = self._worker(need, evidence) if check in job["checks"] else None
        if worker is None:
            return JobReport()
        worker.submit({"inputs": job["inputs"], "checks": [check], "artifacts": artifacts, **more}, limit)
        return worker.collect()

    # --- whose fault it is ------------------------------------------------------------------------

    def settle(self, job: Job, evidence: Evidence, judgement: Judgement) -> bool:
        """Withdraws facts of checks with wrong results if LLVM's build gives wrong results too.

        LLVM builds the variants of the check (`Check.variants`). If the target's process died in the
        check, and LLVM's dies too, its end is withdrawn. Returns whether anything was withdrawn.
        """
        wrong = {f.check for f in judgement.findings if f.outcome == WRONG_RESULT}
        fatal = evidence.target.last_check if evidence.target.died else ""
        withdrawn = False
        for check in CHECKS:
            if check.variants is None or check.id not in {*wrong, fatal}:
                continue
            for variant in check.variants(evidence):
                usual = {**self._workers.built, "executor": job["executors"][0]}
                said = self._workers.ask_reference(changed(job, **{**usual, **variant.changes}))
                if check.id == fatal and said.died and evidence.target.died:
                    evidence.target.withdraw_end(check.id, _DEADLY)
                    withdrawn = True
                if any(_outside(value, variant) for _, value in said.facts("outputs")):
                    withdrawn = True
                    for report in (evidence.target, evidence.loader):
                        report.withdraw(variant.facts or check.facts, check.id, _SHARED)
        return withdrawn


def _outside(outputs: Mapping[str, Any], variant: Variant) -> bool:
    """Returns whether outputs of LLVM's build of a variant are outside their bounds."""
    pairs = zip(outputs["arrays"], variant.expected[outputs["set"]])
    return any(a.shape != b.shape or compare(a, b).outside.any() for a, b in pairs)


def _need(need: str, checks: Iterable[str]) -> bool:
    """Returns whether one of the checks has that need."""
    return any(need in check.needs for check in CHECKS if check.id in checks)


def _described(graph: Graph) -> OtherGraph:
    return {"graph": graph.to_dict(), "inputs": data.inputs(graph, 0), "constants": data.constants(graph)}


def _empty_evidence(given: OtherGraph) -> Evidence:
    graph = Graph.from_dict(given["graph"])
    return Evidence(graph, [given["inputs"]], given["constants"], [], JobReport(), JobReport())


def _compiled(
    worker: Worker, job: Job, folder: str, limit: float, checks: Sequence[str], **more: Any
) -> JobReport:
    """Returns a worker's report on a copy of a job with other checks, in a folder of its own.

    folder: the name of the folder within the job's. more: entries that replace those of the job.
    """
    path = Path(job["folder"], folder)
    path.mkdir()
    entries = {k: v for k, v in job.items() if k not in (LARGER, OPENINGS, EQUIVALENTS, TWIN)}
    worker.submit({**entries, "folder": str(path), "checks": list(checks), **more}, limit)
    return worker.collect()
