"""Plants the faults of fixtures/faults one after the other and says which are found.

    python benchmarks/faults.py [--python PATH] [--ir relay|relax] [--only NAME,...] [--json FILE]

Each fault is looked for with the operators it concerns (fast), and if that misses it, with the whole
suite (slow; `--narrowed` leaves it out). Both stop at the first failure.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
faults = importlib.import_module("fixtures.faults")

#: Seconds for one run of the suite, and for one reproduce.py.
SUITE_LIMIT = 600
SCRIPT_LIMIT = 180
#: What a narrowed run collects, cheapest first; ONNX's models don't follow --byoc-operators.
PHASES = "operators,structures,random"


@dataclass
class Result:
    """What became of one fault. operators: of the shrunk graph. reproduced: how reproduce.py ended."""

    name: str
    bug_class: int
    ir: str
    expected: str | None
    found: bool = False
    check: str = ""
    outcome: str = ""
    stage: str = ""
    phase: str = ""
    case: str = ""
    operators: int = 0
    seconds: float = 0.0
    run: str = ""
    reproduced: str = ""
    message: str = ""

    @property
    def remarks(self) -> list[str]:
        """What is not as it should be."""
        if not self.found:
            return ["not found"] if self.expected else ["not found, as expected"]
        remarks = []
        if self.check != self.expected:
            remarks.append(f"by {self.check}, not {self.expected}")
        if self.operators > 3:
            remarks.append(f"{self.operators} operators left")
        if not self.reproduced.startswith("fails"):
            remarks.append(f"reproduce.py {self.reproduced}")
        return remarks


def suite(target: Path, ir: str, python: str, folder: Path, *extra: str) -> tuple[int, float, dict]:
    """One run of pytest: exit code (-1: out of time), seconds, the first failure of report.json."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [
        sys.executable, "-m", "pytest", "-c", "pytest.ini", f"--byoc-target={target}/__init__.py:target",
        f"--byoc-ir={ir}", f"--byoc-python={python}", "--byoc-report=report",
        "-q", "-x", "-p", "no:cacheprovider", *extra,
    ]
    begin = time.monotonic()
    try:
        with (folder / "output.txt").open("w") as output:
            code = subprocess.run(command, cwd=folder, stdout=output, stderr=output, timeout=SUITE_LIMIT)
        status = code.returncode
    except subprocess.TimeoutExpired:
        status = -1
    seconds = time.monotonic() - begin
    report = folder / "report" / "report.json"
    failures = json.loads(report.read_text())["failures"] if report.exists() else []
    return status, seconds, failures[0] if failures else {}


def phase_of(output: str) -> str:
    """The test function that failed first, from pytest's summary."""
    for line in output.splitlines():
        if line.startswith(("FAILED", "ERROR")):
            return line.split("::", 1)[-1].split("[")[0].split(" ")[0]
    return ""


def reproduce(bundle: Path, python: str) -> str:
    """How reproduce.py ends in the workers' interpreter."""
    try:
        done = subprocess.run(
            [python, str(bundle / "reproduce.py")], capture_output=True, text=True, timeout=SCRIPT_LIMIT
        )
    except subprocess.TimeoutExpired:
        return "does not end"
    except OSError as e:
        return f"can't be run: {e}"
    if done.returncode == 0:
        return "passes"
    # "Timeout": it hung so thoroughly that no other thread could say FAILED.
    if done.returncode == 1 and "FAILED:" not in done.stdout and "Timeout (" not in done.stderr:
        return f"breaks: {(done.stderr.strip().splitlines() or ['silent'])[-1][:200]}"
    return f"fails ({done.returncode})"


def examine(
    fault: faults.Fault, ir: str, python: str, folder: Path, phases: str, narrowed: bool
) -> Result:
    """Plants a fault and looks for it."""
    result = Result(fault.name, fault.bug_class, ir, fault.check)
    target = faults.apply(fault, folder)
    conformance = Path(importlib.import_module("conformance").__file__ or "").parent
    runs = [("narrowed", [f"--byoc-operators={','.join(fault.operators)}",
                          *(str(conformance / f"test_{name}.py") for name in phases.split(","))])]
    if not narrowed:
        runs.append(("whole suite", []))
    for name, extra in runs:
        where = folder / fault.name / name.replace(" ", "-")
        status, seconds, failure = suite(target, ir, python, where, *extra)
        result.run, result.seconds = name, result.seconds + seconds
        result.message = "" if status in (0, 1) else f"pytest ended with {status}"
        if failure:
            result.found = True
            result.check, result.outcome, result.stage, result.case, result.message = (
                failure[key] for key in ("check", "outcome", "stage", "case", "message")
            )
            result.phase = phase_of((where / "output.txt").read_text())
            result.operators = len(json.loads(Path(failure["graph"]).read_text())["nodes"])
            result.reproduced = reproduce(Path(failure["graph"]).parent, python)
            break
    return result


def line(r: Result) -> str:
    """A row of the table."""
    found = f"{r.check} {r.outcome}/{r.stage}" if r.found else f"missed {r.message}"
    return (
        f"{r.name:32} {r.bug_class:2} {found:40} {r.phase:15} {r.seconds:5.0f} s {r.operators:2} "
        f"{r.reproduced:10} {'; '.join(r.remarks)}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", default=sys.executable, help="interpreter that holds TVM")
    parser.add_argument("--ir", choices=faults.IRS, default="relay")
    parser.add_argument("--only", help="names of faults, separated by commas")
    parser.add_argument("--json", type=Path, help="write the results there as well")
    parser.add_argument("--phases", default=PHASES, help=f"of narrowed runs, in order ({PHASES})")
    parser.add_argument("--narrowed", action="store_true", help="never run the whole suite")
    parser.add_argument("--keep", type=Path, help="keep copies, reports and bundles in this folder")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(faults.FAULTS)
    unknown = [n for n in names if n not in faults.FAULTS]
    if unknown:
        parser.error(f"unknown fault {unknown[0]}; known are {', '.join(faults.FAULTS)}")
    results = []
    with tempfile.TemporaryDirectory(prefix="faults-") as temporary:
        folder = (options.keep or Path(temporary)).resolve()
        for fault in (faults.FAULTS[n] for n in names):
            if options.ir not in fault.irs:
                continue
            result = examine(fault, options.ir, options.python, folder, options.phases, options.narrowed)
            results.append(result)
            print(line(result), flush=True)
            if options.json:
                options.json.write_text(json.dumps([asdict(r) for r in results], indent=1))
    wanted = [r for r in results if r.expected]
    found = [r for r in wanted if r.found]
    print(
        f"\n{options.ir}: {len(found)} of {len(wanted)} faults found that a check is made for, "
        f"{len({r.bug_class for r in found})} bug classes; {sum(not r.remarks for r in wanted)} by the "
        f"expected check, in at most 3 operators and with a reproduce.py that fails; "
        f"{sum(r.found for r in results if not r.expected)} of {len(results) - len(wanted)} others found"
    )
    return 0 if len(found) == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main())
