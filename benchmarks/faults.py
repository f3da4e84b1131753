"""Plants the faults of fixtures/faults one by one and reports which are found, and how soon.

    python benchmarks/faults.py [--python PATH] [--ir relay|relax] [--level smoke|standard] [--json FILE]
    python benchmarks/faults.py --clean --seeds 20     counts false alarms on the unmodified target

The suite first runs with the fault's operators only (fast). If that misses the fault, the whole
suite runs (slow; left out with `--narrowed` and `--phases`, and for faults that no check is
expected to find). Both stop at the first failure. `--phases random` shows what random graphs alone
find.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
faults = importlib.import_module("fixtures.faults")
extensions = importlib.import_module("fixtures.faults.extensions")
conformance = importlib.import_module("pytest_byoc.conformance")
Sharing = importlib.import_module("benchmarks.sharing").Sharing
add_python = importlib.import_module("benchmarks.options").add_python

#: Time limits in seconds for one run of the whole suite, and for one reproduce.py.
SUITE_LIMIT = 600
SCRIPT_LIMIT = 180
#: Test files of a narrowed run. ONNX's node tests are left out, since --byoc-operators does not
#: choose them.
PHASES = ("operators", "patterns", "regions", "structures", "followed", "forms", "thorough", "random")
#: Goals: the share of the faults to be found at each level; the median of the seconds until a fault
#: is found; the number of operators of a shrunk graph, and the share of the shrunk graphs with at
#: most that number.
SHARE = {"smoke": 0.95, "standard": 1.0}
MEDIAN_SECONDS = 5.0
SMALL, SMALL_SHARE = 2, 0.95


@dataclass
class Result:
    """The result for one fault.

    expected, also: the checks expected to find it. check, outcome, stage: those of the shrunk
    graph's failure. checks: all checks with a finding on the graph that failed first. examples:
    graphs examined up to that one. seconds: seconds since the first test up to that one. cpu: CPU
    seconds since the start of the session. operators: number of operators of the shrunk graph.
    each_needed: whether the same failure needs each one of them. total: seconds of the sessions,
    shrinking included. reproduced: how reproduce.py ended."""

    name: str
    bug_class: int
    ir: str
    level: str
    expected: str | None
    also: tuple[str, ...] = ()
    found: bool = False
    check: str = ""
    checks: tuple[str, ...] = ()
    outcome: str = ""
    stage: str = ""
    phase: str = ""
    case: str = ""
    examples: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    operators: int = 0
    each_needed: bool | None = None
    total: float = 0.0
    run: str = ""
    reproduced: str = ""
    message: str = ""

    @property
    def wrong_check(self) -> bool:
        """Returns whether the fault was found, but by none of the expected checks."""
        expected = {self.expected, *self.also}
        return self.found and not expected & {self.check, *self.checks}

    @property
    def remarks(self) -> list[str]:
        """Returns remarks on everything that falls short of the goals."""
        if not self.found:
            return ["not found"] if self.expected else ["not found, as expected"]
        remarks = [f"not by {self.expected}"] if self.wrong_check else []
        if self.operators > SMALL:
            remarks.append(f"{self.operators} operators left" + (", each needed" if self.each_needed else ""))
        if self.reproduced and not self.reproduced.startswith("fails"):
            remarks.append(f"reproduce.py {self.reproduced}")
        return remarks


def reproduce(bundle: Path, python: str) -> str:
    """Runs reproduce.py with the workers' interpreter and returns in words how it ended."""
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
    # "Timeout (": the script hung in native code, so that no other thread could print FAILED.
    if done.returncode == 1 and "FAILED:" not in done.stdout and "Timeout (" not in done.stderr:
        return f"breaks: {(done.stderr.strip().splitlines() or ['silent'])[-1][:200]}"
    return f"fails ({done.returncode})"


def narrowed(operators: tuple[str, ...], phases: Sequence[str] = PHASES) -> list[str]:
    """Returns pytest's arguments for some phases of the suite on some operators."""
    folder = Path(conformance.__file__).parent
    return [f"--byoc-operators={','.join(operators)}", *(str(folder / f"test_{p}.py") for p in phases)]


def phases(text: str) -> tuple[str, ...]:
    """Returns the phases that a list separated by commas names."""
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in PHASES]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known are {', '.join(PHASES)}")
    return names


def common(target: str, options: argparse.Namespace) -> list[str]:
    return [
        f"--byoc-target={target}", f"--byoc-ir={options.ir}", f"--byoc-python={options.python}",
        f"--byoc-level={options.level}", "--byoc-report=report", "--byoc-anew", "-q",
    ]


def failures_of(folder: Path) -> list[dict]:
    report = folder / "report" / "report.json"
    return json.loads(report.read_text())["failures"] if report.exists() else []


def examine(fault: faults.Fault, options: argparse.Namespace, folder: Path, sharing: Sharing) -> Result:
    """Plants a fault, runs the suite on it and returns the result."""
    result = Result(fault.name, fault.bug_class, options.ir, options.level, fault.check, fault.also)
    target = faults.apply(fault, folder) / "__init__.py"
    runs = [("narrowed", narrowed(fault.operators, options.phases))]
    if not options.narrowed and options.phases == PHASES and fault.check:
        runs.append(("whole suite", [f"--byoc-time-budget={SUITE_LIMIT}"]))
    for name, extra in runs:
        where = folder / fault.name / name.replace(" ", "-")
        begin = time.monotonic()
        status = sharing.run(where, [*common(f"{target}:target", options), "-x", *extra])
        watch, failures = sharing.watch, failures_of(where)
        result.run, result.total = name, result.total + time.monotonic() - begin
        result.examples += watch.examples
        result.message = "" if status == 0 else f"pytest ended with {status}"
        if not failures or watch.found is None:
            result.seconds += time.monotonic() - (watch.start or begin)
            result.cpu += sharing.cpu()
            continue
        (failure, *_) = failures
        result.found = True
        result.seconds, result.cpu = result.seconds + watch.seconds, result.cpu + watch.cpu
        result.check, result.outcome, result.stage, result.case, result.message = (
            failure[key] for key in ("check", "outcome", "stage", "case", "message")
        )
        result.checks = tuple(dict.fromkeys(f.check for f in watch.found.findings))
        result.phase = watch.test.split("::")[-1].split("[")[0].removeprefix("test_")
        result.each_needed = failure["each_needed"]
        result.operators = len(json.loads(Path(failure["graph"]).read_text())["nodes"])
        if options.reproduce:
            result.reproduced = reproduce(Path(failure["graph"]).parent, options.python)
        break
    return result


def line(r: Result) -> str:
    """Returns a row of the table."""
    found = f"{r.check} {r.outcome}/{r.stage}" if r.found else f"missed {r.message}"
    return (
        f"{r.name:30} {r.bug_class:2} {found:38} {r.phase:10} {r.seconds:5.1f} s {r.examples:3} ex. "
        f"{r.operators} op. {r.total:4.0f} s {r.reproduced:9} {'; '.join(r.remarks)}"
    )


def summary(results: list[Result], ir: str, level: str) -> str:
    """Returns the figures with their goals."""
    wanted = [r for r in results if r.expected]
    found = [r for r in wanted if r.found]
    others = [r for r in results if not r.expected]

    def percent(part: int, whole: int) -> str:
        return f"{part} of {whole} ({100 * part / max(1, whole):.1f}%)"

    rows = [
        ("found", percent(len(found), len(wanted)), f"{100 * SHARE[level]:g}%"),
        ("bug classes", str(len({r.bug_class for r in found})), ""),
        ("seconds to find, median", f"{statistics.median([r.seconds for r in found] or [0]):.1f}",
         f"under {MEDIAN_SECONDS:g}"),
        ("seconds to find, largest", f"{max([r.seconds for r in found] or [0]):.1f}", ""),
        ("examples to find, median", f"{statistics.median([r.examples for r in found] or [0]):g}", ""),
        ("CPU seconds for each found", f"{sum(r.cpu for r in wanted) / max(1, len(found)):.1f}", ""),
        (f"shrunk to {SMALL} operators or fewer",
         percent(sum(r.operators <= SMALL for r in found), len(found)), f"{100 * SMALL_SHARE:g}%"),
        ("or to operators each needed",
         percent(sum(r.operators <= SMALL or bool(r.each_needed) for r in found), len(found)), ""),
        ("not seen by the check expected", str(sum(r.wrong_check for r in found)), "0"),
        ("found in phases", ", ".join(f"{n} {p}" for p, n in Counter(r.phase for r in found).items()), ""),
        ("no check is made for", f"{len(others)}, of which found: {sum(r.found for r in others)}", ""),
    ]
    lines = [f"\n{ir}, level {level}"]
    for what, figure, goal in rows:
        lines.append(f"{what:36} {figure:30} {'target: ' + goal if goal else ''}".rstrip())
    return "\n".join(lines)


def mutate(options: argparse.Namespace, folder: Path, sharing: Sharing) -> int:
    """Prints the table of faults. Returns 0 if the share of found faults reaches its goal, 1 if
    not, and 2 if the run was interrupted; the results up to then are printed and saved."""
    names = options.only.split(",") if options.only else list(faults.FAULTS)
    results: list[Result] = []
    interrupted = False
    for fault in (faults.FAULTS[n] for n in names):
        if options.ir not in fault.irs:
            continue
        try:
            results.append(examine(fault, options, folder, sharing))
        except KeyboardInterrupt:
            interrupted = True
            break
        print(line(results[-1]), flush=True)
        if options.json:
            options.json.write_text(json.dumps([asdict(r) for r in results], indent=1))
    print(summary(results, options.ir, options.level))
    if interrupted:
        print("interrupted: the others were not run")
        return 2
    wanted = [r for r in results if r.expected]
    return 0 if sum(r.found for r in wanted) >= SHARE[options.level] * len(wanted) else 1


def clean(options: argparse.Namespace, folder: Path, sharing: Sharing) -> int:
    """Runs the suite on targets without a fault: the fixed graphs once, random graphs of each seed,
    and the target with the operators that some faults add. Returns 0 if there is no false alarm,
    otherwise 1."""
    operators = tuple(sorted({o for fault in faults.FAULTS.values() for o in fault.operators}))
    added = faults.Fault(
        "extended", 0, "", ("qnn.quantize", "nn.layer_norm"), None,
        (*extensions.QUANTIZE, *extensions.LAYER_NORM),
    )
    random = str(Path(conformance.__file__).parent / "test_random.py")
    some = f"--byoc-operators={','.join(operators)}"
    runs = [
        ("what is the same every time", "example_c", narrowed(operators)),
        ("with what faults add to it", f"{faults.apply(added, folder) / '__init__.py'}:target",
         narrowed(added.operators)),
        *((f"random graphs of seed {seed}", "example_c", [some, f"--byoc-explore={seed}", random])
          for seed in range(1, options.seeds + 1)),
    ]
    alarms = graphs = 0
    for number, (title, target, extra) in enumerate(runs):
        where = folder / f"clean-{number}"
        begin = time.monotonic()
        status = sharing.run(where, [*common(target, options), *extra])
        failures = failures_of(where)
        report = json.loads((where / "report" / "report.json").read_text())
        seen = {outcome: n for outcome, n in report["outcomes"].items() if n}
        alarms, graphs = alarms + len(failures), graphs + report["graphs"] - seen.get("not-offloaded", 0)
        print(f"{title:32} {status} {time.monotonic() - begin:5.0f} s {seen}", flush=True)
        for failure in failures:
            print(f"  {failure['check']} in {failure['case']}: {failure['message']}\n  {failure['graph']}")
    print(f"\n{options.ir}, {options.level}: {alarms} false alarms in {graphs} graphs, {options.seeds} seeds")
    return 1 if alarms else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    add_python(parser)
    parser.add_argument("--ir", choices=faults.IRS, default="relay")
    parser.add_argument("--level", choices=SHARE, default="standard")
    parser.add_argument("--only", help="names of faults, separated by commas")
    parser.add_argument("--json", type=Path, help="write the results there as well")
    parser.add_argument("--narrowed", action="store_true", help="never run the whole suite")
    parser.add_argument("--phases", type=phases, default=PHASES, metavar="NAMES",
                        help=f"run only these phases, separated by commas, of {', '.join(PHASES)}")
    parser.add_argument("--shrink", action="store_true",
                        help=f"also graphs of up to {SMALL} operators, whose number of operators is known")
    parser.add_argument("--reproduce", action="store_true", help="run each bundle's reproduce.py as well")
    parser.add_argument("--keep", type=Path, help="keep copies, reports and bundles in this folder")
    parser.add_argument("--clean", action="store_true", help="the unmodified target, with --seeds")
    parser.add_argument("--seeds", type=int, default=20, help="of random graphs, for --clean (20)")
    options = parser.parse_args()
    for name in options.only.split(",") if options.only else ():
        if name not in faults.FAULTS:
            near = get_close_matches(name, faults.FAULTS) or ["those in fixtures/faults/"]
            parser.error(f"unknown fault {name}; known are {', '.join(near)}")
    with tempfile.TemporaryDirectory(prefix="faults-") as temporary, Sharing() as sharing:
        sharing.shrink_above = 0 if options.shrink or options.reproduce else SMALL
        folder = (options.keep or Path(temporary)).resolve()
        return (clean if options.clean else mutate)(options, folder, sharing)


if __name__ == "__main__":
    sys.exit(main())
