"""Measures the number of graphs examined per CPU minute, and how the time divides among stages.

    python benchmarks/throughput.py --ir relay --python PATH [--operators 1,5,10,20] [--seconds 60]
                                    [--nnsmith PATH]

Each graph goes through all steps of the suite for a random graph: it is generated, partitioned for
`example_c`, built, exported, loaded in another process, run again and compared with the oracle;
only a failing graph is built by LLVM and for the other executors. The CPU seconds of the host, of
the workers and of the compilers they call count; importing TVM, once a session, is listed
separately. As in the suite, operators that the target offloads are preferred. With --nnsmith PATH,
an interpreter with NNSmith 0.1.0, NNSmith's fuzzing loop runs for the same time too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.options import add_python, interpreter
from benchmarks.sharing import cpu_of
from pytest_byoc.config import plan
from pytest_byoc.config.declarations import declare
from pytest_byoc.config.levels import LEVELS
from pytest_byoc.config.settings import Settings
from pytest_byoc.core.job_report import JobReport
from pytest_byoc.examination import gathering
from pytest_byoc.examination.client import Worker
from pytest_byoc.generation import data
from pytest_byoc.generation.random_graphs import some
from pytest_byoc.operators import OPERATORS
from pytest_byoc.oracle import evaluation
from pytest_byoc.suite.cases import Suite
from pytest_byoc.suite.session import TargetSession

#: Stages whose time is spent by TVM, the vendor's code or a compiler, and not by pytest-byoc.
THEIRS = ("lower", "partition", "build", "export", "load", "run", "unload")
#: Number of random graphs per operator at level standard.
AT_ONCE = LEVELS["standard"].max_examples


@dataclass
class Split:
    """CPU seconds of the host by its steps, and of the workers by their stages."""

    host: Counter[str] = field(default_factory=Counter)
    stages: Counter[str] = field(default_factory=Counter)


class TimedWorker(Worker):
    """A worker that adds the CPU seconds of its stages to a split."""

    split: Split

    def collect(self) -> JobReport:
        report = super().collect()
        assert report.end is not None
        for stage, seconds in report.end["cpu"].items():
            self.split.stages[f"{self._config['role']} {stage}"] += seconds
        return report


def timed(split: Split, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        start = time.process_time()
        try:
            return function(*args, **options)
        finally:
            split.host[what] += time.process_time() - start

    return call


@dataclass
class Measured:
    """The result for one size of graph. cpu: CPU seconds of host and workers. split: these by
    step."""

    ir: str
    operators: int
    graphs: int = 0
    cpu: float = 0.0
    wall: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    split: dict[str, float] = field(default_factory=dict)

    @property
    def per_minute(self) -> float:
        return 60 * self.graphs / self.cpu if self.cpu else 0.0

    def lines(self) -> list[str]:
        spent = sum(v for k, v in self.split.items() if k.partition(" ")[2] in THEIRS)
        ours = 1 - spent / self.cpu
        found = [
            f"{self.ir}, {self.operators} operators: {self.graphs} graphs, "
            f"{self.per_minute:.0f} per CPU-minute, "
            f"{60 * self.graphs / self.wall:.0f} per minute; ours {ours:.1%} of {self.cpu:.1f} CPU s; "
            + ", ".join(f"{n} {outcome}" for outcome, n in self.outcomes.most_common())
        ]
        per_graph = {k: 1000 * v / self.graphs for k, v in self.split.items()}
        found.append(
            "  ms of CPU a graph: "
            + ", ".join(f"{k} {v:.1f}" for k, v in sorted(per_graph.items(), key=lambda i: -i[1]) if v >= 0.1)
        )
        return found


def session(ir: str, python: str, split: Split) -> tuple[TargetSession, list[Worker]]:
    """Returns an opened session of example_c, as in the suite, and its workers, which add to the
    split."""
    settings = Settings(
        targets=(), operators=tuple(n for n, op in OPERATORS.items() if ir in op.irs()),
        # The cases of smoke are enough to determine the offloaded operators.
        level=replace(LEVELS["standard"], all_cases=False),
        max_examples=8, max_nodes=5, timeout=60.0, memory_bytes=8 << 30, report=None, replay=(),
        failures=Path("byoc-failures"),
    )
    declaration = declare("example_c", Path.cwd(), ir, python, Path.cwd())
    found = TargetSession(settings, declaration)
    workers: list[Worker] = []

    def make(config: dict[str, Any]) -> Worker:
        worker = TimedWorker(declaration.python, config, settings.timeout)
        worker.split = split
        workers.append(worker)
        return worker

    found.examiner.workers.make_worker = make
    found.open()
    return found, workers


def measure(
    target: TargetSession, workers: list[Worker], split: Split, operators: int, seconds: float, start: str
) -> Measured:
    """Generates and examines graphs with that number of operators until the CPU seconds are
    spent."""
    suite = Suite(target)
    ir, offloaded = target.ir, list(suite.offloaded.operators())
    fragments = target.patterns.fragments()
    examiner = target.examiner
    found = Measured(ir, operators)
    split.host.clear()
    split.stages.clear()
    before, began, wall = sum(map(cpu_of, workers)), time.process_time(), time.monotonic()
    inside = 0.0

    def spent() -> float:
        return time.process_time() - began + sum(map(cpu_of, workers)) - before

    round_ = 0
    while spent() < seconds:
        focus = offloaded[round_ % len(offloaded)]
        round_ += 1
        graphs = some(
            AT_ONCE, f"{start} {round_}", ir=ir, min_nodes=operators, max_nodes=operators, focus=focus,
            operators=suite.offloaded.drawn(), prefer=offloaded, fragments=fragments,
            dtypes=suite.offloaded.operators()[focus],
        )
        start_inside = time.process_time()
        target.ahead(graphs, {plan.NUMEROUS})
        effort = plan.effort(target.settings.level, {plan.NUMEROUS})
        found.outcomes.update(examiner.examine(g, effort).outcome for g in graphs)
        inside += time.process_time() - start_inside
        found.graphs += len(graphs)
    host, theirs = time.process_time() - began, sum(map(cpu_of, workers)) - before
    found.cpu, found.wall = host + theirs, time.monotonic() - wall
    accounted = sum(split.host.values())
    found.split = dict(split.stages)
    found.split["generate"] = host - inside
    found.split.update(split.host)
    found.split["host, the rest"] = inside - accounted
    found.split["fork and transport"] = theirs - sum(split.stages.values())
    return found


def nnsmith(python: str, operators: int, seconds: float) -> dict[str, Any]:
    """Runs NNSmith's loop for the same CPU seconds, and returns the figures that `nnsmith_loop.py`
    prints."""
    script = Path(__file__).with_name("nnsmith_loop.py")
    done = subprocess.run(
        [python, str(script), str(operators), str(seconds), "1"], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ir", choices=["relay", "relax"], required=True)
    add_python(parser)
    parser.add_argument("--operators", default="1,5,10,20", help="sizes of graphs")
    parser.add_argument("--seconds", type=float, default=60.0, help="of CPU, for each size")
    parser.add_argument("--json", default=None, help="file for the figures")
    parser.add_argument("--start", default="0", help="what the random graphs are made from")
    parser.add_argument(
        "--nnsmith", type=interpreter, default=None, metavar="PYTHON",
        help="interpreter that holds NNSmith, to be set beside",
    )
    options = parser.parse_args()
    split = Split()
    target, workers = session(options.ir, options.python, split)
    found = []
    try:
        with (
            patch.object(evaluation, "evaluate", timed(split, "oracle", evaluation.evaluate)),
            patch.object(gathering, "judge", timed(split, "compare", gathering.judge)),
            patch.object(data, "inputs", timed(split, "data", data.inputs)),
            patch.object(data, "constants", timed(split, "data", data.constants)),
            patch.object(Worker, "submit", timed(split, "submit", Worker.submit)),
            patch.object(Worker, "_receive", timed(split, "receive", Worker._receive)),
        ):
            for operators in map(int, options.operators.split(",")):
                found.append(measure(target, workers, split, operators, options.seconds, options.start))
                print(*found[-1].lines(), sep="\n", flush=True)
                if options.nnsmith:
                    theirs = nnsmith(options.nnsmith, operators, options.seconds)
                    rate = 60 * theirs["graphs"] / theirs["cpu"]
                    print(
                        f"  NNSmith: {theirs['graphs']} graphs, {rate:.0f} per CPU-minute, "
                        f"{theirs['flagged']} flagged; ours are {found[-1].per_minute / rate:.1f} times that",
                        flush=True,
                    )
    finally:
        target.close()
    if options.json:
        Path(options.json).write_text(json.dumps([vars(m) for m in found], indent=1))


if __name__ == "__main__":
    main()
