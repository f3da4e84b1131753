"""What some checks need beside the examination of a graph: other graphs, and other workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reference_kernels import Precision

from . import oracle
from .checks import CHECKS
from .evidence import Evidence, JobReport, compare
from .generation import companions, data
from .graph import Graph
from .outcome import WRONG_RESULT
from .worker.client import Worker

#: Checks made for compiling a graph once more, elsewhere.
_ANEW = ("offload", "numerics", "reproducible")
#: Of checks whose graph or build is not the one that the reference is made of: what they record.
_FACTS = {"aot": ("aot",), "unbound": ("unbound",), "batches": ("batch_large",)}
_SHARED = "TVM's own build is outside the bound there too"


class Companions:
    """For one target. `anew` starts another worker of the target's, `bare` a loader that is given none of its
    libraries (None: it has none); both are started when they are first needed."""

    def __init__(
        self, anew: Callable[[], Worker], bare: Callable[[], Worker] | None, opt_level: int,
        precision: Precision,
    ) -> None:
        self._start = {"anew": anew, "bare": bare}
        self._workers: dict[str, Worker] = {}
        self._opt_level = opt_level
        self._precision = precision

    def close(self) -> None:
        for worker in self._workers.values():
            worker.stop()
        self._workers = {}

    def _worker(self, name: str) -> Worker | None:
        start = self._start[name]
        if name not in self._workers and start is not None:
            self._workers[name] = start()
            self._workers[name].ready()
        return self._workers.get(name)

    # --- before, while and after the target is at work -------------------------------------------

    def prepare(self, job: dict[str, Any], graph: Graph) -> Evidence | None:
        """Adds to a job the graph for a larger batch that `batches` needs; that graph's evidence."""
        larger = companions.larger(graph) if "batches" in job["checks"] else None
        if larger is None:
            return None
        inputs, constants = data.inputs(larger, 0), data.constants(larger)
        job["larger"] = {"graph": larger.to_dict(), "inputs": inputs, "constants": constants}
        return Evidence(larger, [inputs], constants, [], JobReport(), JobReport())

    def submit(self, job: Mapping[str, Any], folder: Path, limit: float) -> None:
        """Has the graph compiled once more, by another process, if `reproducible` is to be made."""
        worker = self._worker("anew") if "reproducible" in job["checks"] else None
        if worker is not None:
            (folder / "anew").mkdir()
            checks = [c for c in _ANEW if c in job["checks"]]
            worker.submit({**job, "checks": checks, "folder": str(folder / "anew")}, limit)

    def collect(self, job: Mapping[str, Any]) -> JobReport:
        """The report on what `submit` has asked for."""
        return self._workers["anew"].collect() if "reproducible" in job["checks"] else JobReport()

    def compile_twin(
        self, target: Worker, job: Mapping[str, Any], evidence: Evidence, folder: Path, limit: float
    ) -> None:
        """Has the graph that `together` needs compiled, in a process of its own."""
        graph = companions.twin(evidence.graph) if "together" in job["checks"] else None
        if graph is None:
            return
        inputs, constants = data.inputs(graph, 0), data.constants(graph)
        (folder / "twin").mkdir()
        asked = {
            **job, "graph": graph.to_dict(), "inputs": [inputs], "constants": constants,
            "checks": ["offload", "roundtrip"], "folder": str(folder / "twin"),
        }
        asked.pop("larger", None)
        target.submit(asked, limit)
        evidence.twin = Evidence(graph, [inputs], constants, [], JobReport(), JobReport())
        self.expect(evidence.twin, evidence)
        evidence.twin.target = target.collect()

    def hand_twin(self, evidence: Evidence) -> dict[str, Any]:
        """What the loader's half of `together` needs, by executor."""
        twin = evidence.twin
        found = dict(twin.target.facts("artifact")) if twin is not None else {}
        return {e: {"path": p, "inputs": twin.inputs[0]} for e, p in found.items() if twin is not None}

    def without_libraries(
        self, job: Mapping[str, Any], artifacts: Mapping[str, str], limit: float
    ) -> JobReport:
        """What comes of loading the artifacts where the target's libraries are missing."""
        worker = self._worker("bare") if "missing-library" in job["checks"] else None
        if worker is None:
            return JobReport()
        asked = {"inputs": job["inputs"], "checks": ["missing-library"], "artifacts": artifacts}
        worker.submit(asked, limit)
        return worker.collect()

    def settle(self, reference: Worker, job: Mapping[str, Any], evidence: Evidence) -> None:
        """Withdraws what a check has found to be wrong where LLVM's build of the same is wrong too."""
        unbound = evidence.graph.unbound()
        given = {**evidence.inputs[0], **evidence.constants}
        variants: dict[str, tuple[dict[str, Any], Evidence | None]] = {
            "aot": ({"executor": "aot", "opt_level": self._opt_level}, evidence),
            "unbound": ({"graph": unbound.to_dict(), "inputs": [given], "constants": {}}, evidence),
            "batches": (dict(job.get("larger", {}), inputs=[job.get("larger", {}).get("inputs")]),
                        evidence.larger),
        }
        for check in CHECKS:
            changes, judged = variants.get(check.id, ({}, None))
            if judged is None or not any(f.outcome == WRONG_RESULT for f in check.judge(evidence)):
                continue
            usual = {"executor": job["executors"][0], "opt_level": self._opt_level}
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
        companion.expected = [oracle.evaluate(companion.graph, values, self._precision, taken)]
