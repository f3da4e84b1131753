"""Measures the speedup by a second core, and the growth of memory in a long session.

    python benchmarks/scale.py --ir relay --python PATH                     one core against two
    python benchmarks/scale.py --ir relay --python PATH --memory 3600       memory, over so many seconds

The first command runs the same random graphs of `example_c` twice: pytest on one core, and
pytest-xdist with two processes on two cores. The second explores random graphs and reads the memory
(RSS) of the host and its workers every few seconds; the growth in the second half of the time is
extrapolated to a day.
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

#: Operators that example_c offloads in both IRs. Each is a test, so that neither process waits long
#: for the other at the end.
OPERATORS = (
    "nn.conv2d,nn.dense,nn.batch_matmul,nn.bias_add,nn.relu,nn.leaky_relu,clip,add,subtract,multiply,divide,"
    "maximum,sigmoid,tanh,exp,sqrt,abs,negative,nn.max_pool2d,nn.avg_pool2d,nn.softmax,sum,mean,max,reshape,"
    "transpose,concatenate,split,strided_slice"
)
#: Number of random graphs per operator, for the comparison of cores.
EXAMPLES = 64
#: Seconds between two readings of memory, of the warm-up that does not count, and of a day.
EVERY = 5.0
WARM = 60.0
DAY = 24 * 3600.0


def command(options: argparse.Namespace, folder: Path, *more: str) -> list[str]:
    """Returns the command that runs pytest on the suite's random graphs."""
    random = Path(conformance.__file__).parent / "test_random.py"
    return [
        sys.executable, "-m", "pytest", str(random), "--byoc-target=example_c", f"--byoc-ir={options.ir}",
        f"--byoc-python={options.python}", f"--byoc-operators={OPERATORS}", f"--byoc-report={folder}", "-q",
        "-p", "no:cacheprovider", "--byoc-anew", "-c", str(folder / "pytest.ini"), f"--rootdir={folder}",
        *more,
    ]


def graphs_of(folder: Path) -> int:
    return int(json.loads((folder / "report.json").read_text())["graphs"])


def run(options: argparse.Namespace, cores: int) -> float:
    """Returns the graphs per second, including the start of pytest and of its workers."""
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
    """Returns the RSS of a process in KiB; 0 if the process has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)


def workers_of(pid: int) -> list[int]:
    """Returns the child processes of the host, which are its workers, without their children."""
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def memory(options: argparse.Namespace) -> None:
    """Prints the memory of the host and of the largest worker, and its growth."""
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
    # The last readings may come from a process that writes its report or has ended.
    used = [r for r in readings if r[0] > WARM and r[1] and r[2]][:-2]
    for position, what in ((1, "host"), (2, "largest worker")):
        at = [(reading[0], reading[position] / 1024) for reading in used]
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
