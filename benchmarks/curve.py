"""Draws the curve "share of faults found against time": which faults a session cut short has seen.

    python benchmarks/curve.py --ir relax --python PATH [--every 4] [--limit 120] [--option=--byoc-threads=1]

Each fault of fixtures/faults is planted in a copy of its example, and a whole session runs until the first
failing verdict. Seconds count from the start of pytest, with imports, collection and the start of workers,
before the failing graph is shrunk. Nothing is taken over from earlier sessions.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks import first_failure
from benchmarks.options import add_python
from fixtures import faults

#: Seconds at which the curve is told, and the shares of the faults that are to be found by some of them.
TIMES = (5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300)
GOALS = {20: 0.5, 60: 0.9}


def first(fault: faults.Fault, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Returns "seconds" until the first failing verdict, its "test" and its "checks"; "seconds" is None
    where the session ended without one, or reached the limit."""
    where = folder / fault.name
    target, told = faults.apply(fault, where) / "__init__.py", where / "first.json"
    root = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, first_failure.PATH: str(told), "PYTHONPATH": path}
    began = time.time()
    session = subprocess.Popen(
        [sys.executable, "-m", "pytest", f"--byoc-target={target}:target", f"--byoc-ir={options.ir}",
         f"--byoc-python={options.python}", f"--byoc-level={options.level}", "--byoc-anew", "-q", "-p",
         "no:cacheprovider", "-p", "benchmarks.first_failure", *options.option],
        cwd=where, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        session.wait(options.limit)
    except subprocess.TimeoutExpired:
        session.kill()
        session.wait()
    if not told.exists():
        return {"name": fault.name, "seconds": None, "test": "", "checks": []}
    found = json.loads(told.read_text())
    return {**found, "name": fault.name, "seconds": found.pop("at") - began}


def curve(results: list[dict[str, Any]], limit: float) -> str:
    """Returns the shares of the faults that are found by each of `TIMES`, and the tests that find them."""
    found = sorted(r["seconds"] for r in results if r["seconds"] is not None)
    lines = [f"\n{len(results)} faults, of which {len(found)} found within {limit:g} s", "  by   found"]
    for seconds in TIMES:
        if seconds <= limit:
            share = sum(s <= seconds for s in found) / max(1, len(results))
            goal = f"   target: {GOALS[seconds]:.0%}" if seconds in GOALS else ""
            lines.append(f"{seconds:4} s  {share:4.0%}  {'#' * round(40 * share)}{goal}")
    kinds = Counter(r["test"].split("::")[-1].split("[")[0] for r in results if r["seconds"] is not None)
    lines.append("found in: " + ", ".join(f"{number} {kind}" for kind, number in kinds.most_common()))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ir", choices=faults.IRS, default="relay")
    parser.add_argument("--level", choices=("smoke", "standard"), default="smoke")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each Nth fault")
    parser.add_argument("--limit", type=float, default=120.0, metavar="SECONDS", help="of a session (120)")
    parser.add_argument("--option", action="append", default=[], help="of pytest, as in --option=-nauto")
    parser.add_argument("--json", type=Path, help="write the results there as well")
    add_python(parser)
    options = parser.parse_args()
    # Faults that no check is made for are no part of the share.
    planted = [f for f in faults.FAULTS.values() if options.ir in f.irs and f.check][:: options.every]
    results = []
    with tempfile.TemporaryDirectory(prefix="curve-") as name:
        for fault in planted:
            results.append(first(fault, options, Path(name)))
            seconds = results[-1]["seconds"]
            when = "not found" if seconds is None else f"{seconds:6.1f} s"
            print(f"{fault.name:34} {when}  {results[-1]['test'].split('::')[-1][:60]}", flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))
    print(curve(results, options.limit))


if __name__ == "__main__":
    main()
