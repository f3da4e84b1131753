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
    said, llvm = workers.export_by_llvm(job, "timed.so", **workers.built, **usual, checks=[])
    if not llvm:
        evidence.loader.withdraw((), plan.SPEED, f"LLVM's artifact is not built{_why(said)}")
        return
    tuned, not_tuned = _tuned(workers, job, usual)
    artifacts = {"target": target, "llvm": llvm, **({"tuned": tuned} if tuned else {})}
    workers.loader.submit({**usual, "time": artifacts}, limit)
    said = workers.loader.collect()
    for _, seconds in said.facts("seconds"):
        if all(runs and min(runs) > 0 for runs in seconds.values()):
            times = {name: Times.of(runs) for name, runs in seconds.items()}
            peaks = {} if workers.by_runner else _peaks(workers, usual, artifacts, limit)
            tuned_times = times.get("tuned")
            evidence.speed = Speed(
                executor, times["target"], times["llvm"], tuned=tuned_times, not_tuned=not_tuned, **peaks
            )
    if evidence.speed is None:
        evidence.loader.withdraw((), plan.SPEED, f"no times were measured{_why(said)}")


def _tuned(workers: Workers, job: Job, usual: dict[str, Any]) -> tuple[str, str]:
    """Returns the path of LLVM's artifact with the target's tuning log, or "" and why there is none."""
    log = workers.declaration.tuning
    if log is None:
        return "", ""
    entries = {**workers.built, **usual, "checks": [], "tuning": log.for_worker()}
    said, path = workers.export_by_llvm(job, "tuned.so", **entries)
    if not path:
        return "", f"LLVM's build with the tuning log fails{_why(said)}"
    if not any(fitting for _, fitting in said.facts("fitting")):
        return "", "the tuning log fits nothing of it"
    return path, ""


def _why(said: JobReport) -> str:
    """Returns ": " and why a job of measuring has sent no times; "" where the device knows none."""
    for message in said.raised():
        return exception_text(message["raised"]["message"])
    return f": the process {said.ended}" if said.died else ""


def _peaks(
    workers: Workers, usual: dict[str, Any], artifacts: dict[str, str], limit: float
) -> dict[str, Any]:
    """Returns the most memory that each artifact takes, each in a process of its own."""
    found: dict[str, Any] = {}
    for name, path in artifacts.items():
        workers.loader.submit({**usual, "peak": path, "of_llvm": name != "target"}, limit)
        for _, peak in workers.loader.collect().facts("peak"):
            found[f"{name}_peak"] = peak
    return found
