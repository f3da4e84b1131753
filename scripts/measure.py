"""Measures which dtypes TVM's LLVM build runs, operator by operator, and writes it down.

    python scripts/measure_dtypes.py --ir relay --python PATH_TO_PYTHON_WITH_TVM

Rewrites that IR's part of `pytest_byoc/operators/measured.json`. Each operator's default case is built
and run in each dtype its record takes. What raises, dies or comes out wrong there is left out of the
generated graphs, and listed in the documentation.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pytest_byoc import oracle
from pytest_byoc.evidence import compare
from pytest_byoc.generation import data
from pytest_byoc.generation.systematic import default_case
from pytest_byoc.graph import Graph
from pytest_byoc.operators import OPERATORS, measured
from pytest_byoc.worker.client import Worker

SECONDS = 60.0


def why_not(worker: Worker, graph: Graph) -> str | None:
    """What is wrong with LLVM's build of the graph; None if nothing is."""
    inputs, constants = data.inputs(graph, 0), data.constants(graph)
    worker.submit(
        {
            "kind": "examine", "graph": graph.to_dict(), "inputs": [inputs], "constants": constants,
            "opt_level": 1, "executor": worker.description["executors"][0],
        }
    )
    report = worker.collect()
    if report.died:
        return report.died
    raised = next(report.raised(), None)
    if raised:
        lines = [line.strip() for line in raised["raised"]["message"].splitlines() if line.strip()]
        return f"{raised['stage']}: {lines[-1][:160] if lines else raised['raised']['type']}"
    expected = oracle.evaluate(graph, {**inputs, **constants})
    for _, value in report.facts("outputs"):
        for actual, bounded in zip(value["arrays"], expected, strict=True):
            if actual.shape != bounded.shape or str(actual.dtype) != bounded.dtype:
                return f"compare: returns {actual.dtype}{list(actual.shape)}"
            if compare(actual, bounded).outside.any():
                return "compare: wrong result"
    return None


def measure(worker: Worker, ir: str, names: list[str]) -> dict[str, dict[str, str]]:
    fails: dict[str, dict[str, str]] = {}
    for name in names:
        op = OPERATORS[name]
        if ir not in op.irs():
            continue
        for dtype in op.dtypes:
            reason = why_not(worker, default_case(name, dtype, ir).graph)
            if reason is not None:
                fails.setdefault(name, {})[dtype] = reason
                print(f"{ir} {name} {dtype}: {reason}", flush=True)
    return fails


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ir", choices=["relay", "relax"], required=True)
    parser.add_argument("--python", default=sys.executable, help="interpreter that holds TVM")
    parser.add_argument("--only", default="", help="operators, separated by commas; the others stay")
    options = parser.parse_args()
    worker = Worker(options.python, {"role": "reference", "ir": options.ir, "memory": 0}, SECONDS)
    worker.start()
    worker.ready()
    try:
        table: dict[str, Any] = dict(measured.table())
        only = [n for n in options.only.split(",") if n]
        fails = measure(worker, options.ir, only or list(OPERATORS))
        kept = table.get(options.ir, {}).get("fails", {}) if only else {}
        fails = {**{k: v for k, v in kept.items() if k not in only and k in OPERATORS}, **fails}
        table[options.ir] = {"tvm": worker.description["versions"]["tvm"], "fails": fails}
    finally:
        worker.stop()
    measured.PATH.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
