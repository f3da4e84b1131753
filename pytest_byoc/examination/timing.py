"""Has the device measure a target's artifact and LLVM's, in turn."""

from __future__ import annotations

from typing import Any

from ..config import plan
from ..core.job_report import JobReport
from ..core.jobs import Job
from ..evidence.evidence import Evidence
from ..evidence.speed import Speed, Times
from .signature import exception_text
from .workers import Workers


def measure(workers: Workers, job: Job, evidence: Evidence, limit: float) -> None:
    """Measures the artifacts of a job, where its effort asks for it.

    LLVM builds its own with the target's opt_level and pass-config. limit: seconds for a stage.
    """
    executor = job["executors"][0]
    target = dict(evidence.target.facts("artifact")).get(executor)
    if plan.SPEED not in job["checks"] or target is None or evidence.target.died or evidence.loader.died:
        return
    if not workers.measures:
        return
    usual: dict[str, Any] = {"inputs": job["inputs"][:1], "executor": executor}
    _, llvm = workers.export_by_llvm(job, "timed.so", **workers.built, **usual, checks=[])
    if not llvm:
        evidence.loader.withdraw((), plan.SPEED, "LLVM's artifact is not built")
        return
    artifacts = {"target": target, "llvm": llvm}
    workers.loader.submit({**usual, "time": artifacts}, limit)
    said = workers.loader.collect()
    for _, seconds in said.facts("seconds"):
        if all(runs and min(runs) > 0 for runs in seconds.values()):
            times = {name: Times.of(runs) for name, runs in seconds.items()}
            peaks = {} if workers.by_runner else _peaks(workers, usual, artifacts, limit)
            evidence.speed = Speed(executor, times["target"], times["llvm"], **peaks)
    if evidence.speed is None:
        evidence.loader.withdraw((), plan.SPEED, f"no times were measured{_why(said)}")


def _why(said: JobReport) -> str:
    """Returns ": " and why a job of measuring has sent no times; "" where the device knows none."""
    for message in said.raised():
        return exception_text(message["raised"]["message"])
    return f": the process {said.ended}" if said.died else ""


def _peaks(
    workers: Workers, usual: dict[str, Any], artifacts: dict[str, str], limit: float
) -> dict[str, int]:
    """Returns the most memory that each artifact takes, each in a process of its own."""
    found: dict[str, int] = {}
    for name, path in artifacts.items():
        workers.loader.submit({**usual, "peak": path, "of_llvm": name == "llvm"}, limit)
        for _, peak in workers.loader.collect().facts("peak"):
            found[f"{name}_peak"] = peak
    return found
