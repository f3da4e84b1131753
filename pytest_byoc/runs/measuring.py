"""Measures artifacts in a loader: the seconds of a run, and the memory that loading and running takes."""

from __future__ import annotations

import time
from typing import Any, Mapping

from ..ir.interface import IR
from .preparing import Preparation
from .reporter import Reporter

#: The number of rounds; once they have taken LONG seconds, LEAST are enough.
ROUNDS, LEAST, LONG = 7, 3, 20.0


def measure_seconds(
    ir: IR, job: Mapping[str, Any], preparation: Preparation, reporter: Reporter
) -> None:
    """Sends the seconds of runs of two artifacts, job["time"]["target"] and ["llvm"].

    Each round measures both, so that other load of the machine affects both.
    """
    reporter.stage("load")
    loaded = {name: ir.load(path, job["executor"]) for name, path in job["time"].items()}
    preparation.apply(loaded["target"])
    seconds: dict[str, list[float]] = {name: [] for name in loaded}
    began = time.monotonic()
    for number in range(ROUNDS):
        if number >= LEAST and time.monotonic() - began > LONG:
            break
        for name, executable in loaded.items():
            reporter.stage("time")
            seconds[name].append(executable.seconds(job["inputs"][0]))
    reporter.send({"fact": "seconds", "executor": job["executor"], "value": seconds})


def measure_peak(
    ir: IR, job: Mapping[str, Any], preparation: Preparation, reporter: Reporter
) -> None:
    """Sends the bytes that loading and running the artifact job["peak"] adds at most to the process.

    The process is a new one, whose high-water mark is what it has inherited. Nothing is sent where the
    system does not tell it.
    """
    before = _status().get("VmRSS")
    reporter.stage("load")
    executable = ir.load(job["peak"], job["executor"])
    if not job.get("of_llvm"):
        preparation.apply(executable)
    reporter.stage("run")
    for inputs in job["inputs"]:
        executable.run(inputs)
    most = _status().get("VmHWM")
    if before is not None and most is not None:
        reporter.send({"fact": "peak", "executor": job["executor"], "value": max(most - before, 0)})


def _status() -> dict[str, int]:
    """Returns the sizes of this process in bytes, by the names that Linux gives them."""
    try:
        with open("/proc/self/status") as f:
            lines = [line.split() for line in f]
    except OSError:
        return {}
    return {words[0].rstrip(":"): int(words[1]) << 10 for words in lines if words[-1:] == ["kB"]}
