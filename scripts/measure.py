"""Measures which cases of each operator TVM's LLVM build runs, and writes down the others.

    python scripts/measure.py --ir relay --python PATH_TO_PYTHON_WITH_TVM

Rewrites that IR's part of `pytest_byoc/operators/measured.json`. Each operator's default case is
built and run in each dtype of its record; in half precision some random cases follow; then each
boundary case in the dtypes that run. A dtype or case that raises, crashes or gives a wrong result
(a dtype also if more than one in six of its random cases does) is left out of the generated graphs,
and listed in the documentation. So is a boundary case for which the kernel has no value, or a sure
value for fewer than half of the elements. A boundary case with a wrong result needs a line in
docs/explanation/tvm-faults.md: either TVM or the kernel is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.options import add_python
from benchmarks.soundness import built
from pytest_byoc.core.graph import Graph
from pytest_byoc.evidence.comparison import compare, share_judged
from pytest_byoc.examination.client import Worker
from pytest_byoc.examination.decision import JUDGED_SHARE
from pytest_byoc.generation import boundary
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.generation.systematic import default_case, measured_cases
from pytest_byoc.operators import OPERATORS, measured, within
from pytest_byoc.operators.record import TypeRuleError

SECONDS = 60.0
#: Dtypes that TVM computes by way of other dtypes, with occasional errors: random cases are tried
#: too.
HALF = ("float16", "bfloat16")
RANDOM = 12


def why_not(worker: Worker, graph: Graph) -> str | None:
    """Returns the error of LLVM's build of the graph; None if there is none."""
    report, expected = built(worker, graph)
    if report.died:
        return report.died
    raised = next(report.raised(), None)
    if raised:
        return f"{raised['stage']}: {_last_line(raised['raised'])}"
    for _, value in report.facts("outputs"):
        for actual, bounded in zip(value["arrays"], expected, strict=True):
            if actual.shape != bounded.shape or str(actual.dtype) != bounded.dtype:
                return f"compare: returns {actual.dtype}{list(actual.shape)}"
            if compare(actual, bounded).outside.any():
                return "compare: wrong result"
    if share_judged(expected) < JUDGED_SHARE:
        return "kernel: fewer than half of the elements can be judged"
    return None


def _last_line(raised: dict[str, str]) -> str:
    lines = [line.strip() for line in raised["message"].splitlines() if line.strip()]
    return lines[-1][:160] if lines else raised["type"]


def why_not_dtype(worker: Worker, name: str, dtype: str, ir: str) -> str | None:
    """Returns the error of the operator in that dtype; None if there is none."""
    reason = why_not(worker, default_case(name, dtype, ir).graph)
    if reason is None and dtype in HALF:
        reasons = [why_not(worker, graph) for graph in some_cases(name, dtype, ir)]
        wrong = [r for r in reasons if r is not None and not r.startswith("kernel")]
        if len(wrong) * 6 > len(reasons):
            reason = f"{len(wrong)} of {len(reasons)} random cases; {wrong[0]}"
    return reason


def some_cases(name: str, dtype: str, ir: str) -> list[Graph]:
    """Returns distinct random graphs of that operator alone, with a first operand of that dtype."""
    drawn = some(RANDOM, name, operators=[name], ir=ir, max_nodes=1, dtypes=[dtype])
    return list(dict.fromkeys(g for g in drawn if g.type_of(g.nodes[0].inputs[0]).dtype == dtype))


def why_left_out(worker: Worker, label: str, make: boundary.Make) -> str | None:
    """Returns the reason to leave out a boundary case, or None. An exception of the record or the
    kernel passes through, unless they need not support the shape of the case."""
    refusal = "record: it takes no such shape"
    try:
        graph = make()
        refusal = "kernel: there is no value"
        return why_not(worker, graph)
    except TypeRuleError as e:
        return f"record: {e}"
    except Exception:
        if not any(kind in label for kind in ("-shape_", "-empty", "-large", "-aligned")):
            raise
        return refusal


def measure(worker: Worker, ir: str, name: str) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the reasons to leave out dtypes, and those to leave out boundary cases, cases of extents
    and cases of narrow dtypes and three window parameters, in the remaining dtypes."""
    op = within(name, ir)
    fails = {d: why_not_dtype(worker, name, d, ir) for d in OPERATORS[name].dtypes}
    running = [d for d, reason in fails.items() if reason is None]
    cases = boundary.candidates(op, running) if running else ()
    left_out = {label: why_left_out(worker, label, make) for label, make in cases}
    made = measured_cases(op, running, ir) if running else ()
    left_out.update((label, why_not(worker, one.graph)) for label, one in made if one is not None)
    for what, reasons in (("", fails), ("case ", left_out)):
        for key, reason in reasons.items():
            if reason is not None:
                print(f"{ir} {name} {what}{key}: {reason}", flush=True)
    return _given(fails), _given(left_out)


def _given(reasons: dict[str, str | None]) -> dict[str, str]:
    return {key: reason for key, reason in reasons.items() if reason is not None}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ir", choices=["relay", "relax"], required=True)
    add_python(parser)
    parser.add_argument("--only", default="", help="operators, separated by commas; the others stay")
    options = parser.parse_args()
    only = [n for n in options.only.split(",") if n]
    table: dict[str, Any] = dict(measured.table())
    # The old results would keep the generators from making the cases that are measured again.
    part = measured.table().pop(options.ir, {})
    kept = {
        key: {n: why for n, why in part.get(key, {}).items() if only and n not in only and n in OPERATORS}
        for key in ("fails", "left_out")
    }
    # Memory that a build leaves unwritten must not be right by chance.
    config = {"role": "reference", "ir": options.ir, "memory": 0, "env": {"MALLOC_PERTURB_": "85"}}
    worker = Worker(options.python, config, SECONDS)
    worker.start()
    worker.ready()
    try:
        for name in only or OPERATORS:
            if options.ir in OPERATORS[name].irs():
                for key, reasons in zip(kept, measure(worker, options.ir, name), strict=True):
                    if reasons:
                        kept[key][name] = reasons
        version = part.get("tvm") if only else worker.description["versions"]["tvm"]
        table[options.ir] = {"tvm": version, **kept}
    finally:
        worker.stop()
    measured.PATH.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
