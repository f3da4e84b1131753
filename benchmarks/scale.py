"""What two cores are worth, and what a long session does to memory.

    python benchmarks/scale.py --ir relay --python PATH                     one core against two
    python benchmarks/scale.py --ir relay --python PATH --memory 3600       memory, over so many seconds

The first runs the same random graphs of `example_c` twice: pytest on one core, and pytest-xdist with two
processes on two. The second explores random graphs and reads every few seconds how much memory the host and
its workers have (RSS); what it grew by in the second half of the time says what a day would add.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.options import add_python
from pytest_byoc import conformance

#: What example_c takes in both IRs: a test each, so that neither process is left alone for long at the end.
OPERATORS = (
    "nn.conv2d,nn.dense,nn.batch_matmul,nn.bias_add,nn.relu,nn.leaky_relu,clip,add,subtract,multiply,divide,"
    "maximum,sigmoid,tanh,exp,sqrt,abs,negative,nn.max_pool2d,nn.avg_pool2d,nn.softmax,sum,mean,max,reshape,"
    "transpose,concatenate,split,strided_slice"
)
#: Random graphs of each operator, for the comparison of cores.
EXAMPLES = 64
#: Seconds between two readings of memory, and of a beginning that is not counted.
EVERY = 5.0
WARM = 60.0
DAY = 24 * 3600.0


def command(options: argparse.Namespace, folder: Path, *more: str) -> list[str]:
    """pytest on the suite's random graphs."""
    random = Path(conformance.__file__).parent / "test_random.py"
    return [
        sys.executable, "-m", "pytest", str(random), "--byoc-target=example_c", f"--byoc-ir={options.ir}",
        f"--byoc-python={options.python}", f"--byoc-operators={OPERATORS}", f"--byoc-report={folder}", "-q",
        "-p", "no:cacheprovider", "-c", str(folder / "pytest.ini"), f"--rootdir={folder}", *more,
    ]


def graphs_of(folder: Path) -> int:
    return int(json.loads((folder / "report.json").read_text())["graphs"])


def run(options: argparse.Namespace, cores: int) -> float:
    """Graphs a second, the start of pytest and of its workers included."""
    with tempfile.TemporaryDirectory(prefix="scale-") as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        several = ["-n", str(cores), "--dist", "worksteal"] if cores > 1 else []
        allowed = sorted(os.sched_getaffinity(0))[:cores]
        start = time.monotonic()
        done = subprocess.run(
            command(options, folder, f"--byoc-max-examples={EXAMPLES}", *several), cwd=folder,
            stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, allowed),
        )
        seconds = time.monotonic() - start
        if done.returncode:
            raise SystemExit(f"pytest ended with {done.returncode}:\n{done.stdout[-3000:]}")
        graphs = graphs_of(folder)
    words = f"{graphs} graphs in {seconds:.1f} s, {graphs / seconds:.2f} a second"
    print(f"{options.ir}, cores: {cores}; {words}", flush=True)
    return graphs / seconds


def resident(pid: int) -> int:
    """RSS in KiB; 0 if the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)


def workers_of(pid: int) -> list[int]:
    """Processes the host has started: its workers, not what they fork."""
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def memory(options: argparse.Namespace) -> None:
    """Prints what the host and the largest worker held, and how fast that grew."""
    with tempfile.TemporaryDirectory(prefix="scale-") as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        explore = ["--byoc-explore=1", f"--byoc-time-budget={options.memory:g}"]
        start, readings = time.monotonic(), []
        with (folder / "output.txt").open("w") as output:
            process = subprocess.Popen(command(options, folder, *explore), cwd=folder, stdout=output)
            while process.poll() is None:
                time.sleep(EVERY)
                largest = max(map(resident, workers_of(process.pid)), default=0)
                readings.append((time.monotonic() - start, resident(process.pid), largest))
        graphs = graphs_of(folder)
    print(f"{options.ir}: {graphs} graphs in {time.monotonic() - start:.0f} s")
    # The last reading may be of a process that writes its report, or is gone.
    told = [r for r in readings if r[0] > WARM and r[1] and r[2]][:-2]
    for position, what in ((1, "host"), (2, "largest worker")):
        at = [(reading[0], reading[position] / 1024) for reading in told]
        half = at[len(at) // 2 :]
        (t0, m0), (t1, m1) = half[0], half[-1]
        growth = (m1 - m0) / (t1 - t0)
        print(
            f"  {what}: {at[0][1]:.0f} MiB after {at[0][0]:.0f} s, {at[-1][1]:.0f} MiB at the end, "
            f"at most {max(m for _, m in at):.0f}; in the second half {growth * 3600:+.1f} MiB an hour: "
            f"{growth * DAY:+.0f} MiB in a day"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ir", choices=["relay", "relax"], required=True)
    add_python(parser)
    parser.add_argument("--memory", type=float, default=0.0, metavar="SECONDS", help="watch memory instead")
    options = parser.parse_args()
    if options.memory:
        memory(options)
        return
    one = run(options, 1)
    two = run(options, 2)
    print(f"{options.ir}: two cores do {two / one:.2f} times what one does (target: 1.8)")


if __name__ == "__main__":
    main()
