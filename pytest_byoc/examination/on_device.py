"""Has the loader make the runs that a target worker has left to the device (`core/tape.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..core.job_report import JobReport
from ..core.tape import PLAYED, STEP, Missing, awaited, filled
from .client import Worker


def play(report: JobReport, loader: Worker, limit: float, of_llvm: bool = False) -> None:
    """Completes a report of the target worker with the results of the runs on the device.

    Facts about runs that failed there are removed. Exceptions and the death of the loader's process
    become those of the report, as if the target worker had run the artifacts itself. limit: seconds
    for a stage. of_llvm: whether the artifacts are LLVM's own.
    """
    steps = [{**value, "executor": executor} for executor, value in report.facts(STEP)]
    if not steps:
        return
    loader.submit({"tape": steps, "inputs": [], "checks": [], "of_llvm": of_llvm}, limit)
    said = loader.collect()
    results = {value["number"]: value for _, value in said.facts(PLAYED)}
    messages: list[dict[str, Any]] = []
    for message in report.messages:
        if message.get("fact") == STEP:
            continue
        try:
            messages.append(filled(message, results) if "fact" in message else message)
        except Missing:
            continue
    told = (m for m in said.messages if m.get("fact") != PLAYED and "done" not in m)
    report.messages = [*messages, *told]
    if said.died is not None:
        report.end = said.end


def runs_of(path: str, executor: str, inputs: Sequence[Mapping[str, Any]]) -> JobReport:
    """Returns a report to be played, on an artifact that is loaded and run with each set of inputs."""
    report = JobReport([_step({"number": 0, "load": path, "with": executor}, executor)])
    for number, arrays in enumerate(inputs):
        outputs = {"set": number, "arrays": awaited(number + 1, "outputs")}
        report.messages += [
            _step({"number": number + 1, "run": 0, "inputs": arrays}, executor),
            {"fact": "outputs", "executor": executor, "value": outputs},
        ]
    return report


def _step(what: Mapping[str, Any], executor: str) -> dict[str, Any]:
    return {"fact": STEP, "executor": executor, "value": {"check": "numerics", **what}}
