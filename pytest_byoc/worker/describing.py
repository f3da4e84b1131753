"""Describes a graph for a report: the module before and after partitioning, and the sources."""

from __future__ import annotations

from typing import Any, Mapping

from ..core.graph import Graph
from ..ir.interface import IR
from ..runs import TargetRun
from ..runs.reporter import Reporter

#: The number of characters of a text that are sent. A source may hold the weights of a whole model.
LONGEST = 1 << 20
#: The number of sources that are sent.
MOST = 50


def describe(ir: IR, target: Any, job: Mapping[str, Any], reporter: Reporter) -> None:
    """Sends the texts, each as soon as it exists, so that a crash in a later stage loses none.

    job: "graph", "constants", "executors", and "stages": those of "partition" and "build" to run.
    """
    run = TargetRun(ir, target, Graph.from_dict(job["graph"]), {**job, "inputs": []}, reporter)
    try:
        _record(run, "before", ir.modules.text(run.module()))
        if "partition" not in job["stages"]:
            return
        partitioned = run.partitioned()
        _record(run, "after", ir.modules.text(partitioned))
        if "build" not in job["stages"]:
            return
        symbols = [region["symbol"] for region in run.regions()["regions"]]
        executable = run.executable(run.executors[0])
        for source in executable.sources(symbols)[:MOST]:
            _record(run, "source", source.text, kind=source.kind, symbols=source.symbols)
    except Exception as e:
        run.failed(e)


def _record(run: TargetRun, fact: str, text: str, **more: Any) -> None:
    run.record(fact, {"text": text[:LONGEST], "characters": len(text), **more})
