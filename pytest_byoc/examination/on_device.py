"""Has the loader make the runs that a target worker has left to the device (`core/tape.py`)."""

from __future__ import annotations

from typing import Any

from ..core.job_report import JobReport
from ..core.tape import PLAYED, STEP, Missing, filled
from .client import Worker


def play(report: JobReport, loader: Worker, limit: float) -> None:
    """Completes a report of the target worker with the results of the runs on the device.

    Facts about runs that failed there are removed. Exceptions and the death of the loader's process
    become those of the report, as if the target worker had run the artifacts itself. limit: seconds
    for a stage.
    """
    steps = [{**value, "executor": executor} for executor, value in report.facts(STEP)]
    if not steps:
        return
    loader.submit({"tape": steps, "inputs": [], "checks": []}, limit)
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
