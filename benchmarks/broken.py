"""Measures a session on a broken target of four operators: what it costs, and which causes it tells.

    python benchmarks/broken.py --ir relay --python PATH [--level standard] [--option=-n2]

The target is example_c with four operators only and one fault of fixtures/faults in each. It stands for
the first session of somebody who writes a codegen: nearly everything fails, and what is wanted is the
list of causes, soon.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.options import add_python
from fixtures.faults import FAULTS, Fault, Patch, apply

#: A fault of each operator. The last one is of every region.
PLANTED = ("broadcast_from_the_left", "softmax_axis_ignored", "unrolled_last_block", "byte_offset_ignored")
#: The kernels of the four operators.
KERNELS = ("subtract", "softmax", "relu", "concatenate")
#: What leaves the example only these, and patterns of these alone.
_FOUR = (
    Patch(
        "support.py", "def reason_unsupported(step: Step) -> Optional[str]:",
        f"def reason_unsupported(step):\n    return _reason(step) if step.kernel in {KERNELS} else 'no'\n\n\n"
        "def _reason(step: Step) -> Optional[str]:",
    ),
    Patch("relax.py", "    for operator, (kernel, _, _, arguments) in OPERATORS.items():\n",
          "    for operator, (kernel, _, _, arguments) in OPERATORS.items():\n"
          f"        if kernel not in {KERNELS}:\n            continue\n"),
    Patch("relax.py", "    for anchored in (conv2d, dense, dense_transposed):", "    for anchored in ():"),
    Patch("relay.py", '    return [\n        (f"{NAME}.conv2d_bias_relu"',
          '    return [] and [\n        (f"{NAME}.conv2d_bias_relu"'),
)


def target(folder: Path) -> Path:
    """Writes the target into a folder, and returns the path of its module."""
    patches = [patch for name in PLANTED for patch in FAULTS[name].patches]
    return apply(Fault("broken", 0, "", (), None, (*_FOUR, *patches)), folder) / "__init__.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--ir", default="relay", choices=("relay", "relax"))
    parser.add_argument("--level", default="smoke")
    parser.add_argument("--option", action="append", default=[], help="of pytest, as in --option=-nauto")
    add_python(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="broken-") as name:
        folder = Path(name)
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", f"--byoc-target={target(folder)}:target",
             f"--byoc-ir={options.ir}", f"--byoc-python={options.python}", f"--byoc-level={options.level}",
             f"--byoc-report={folder / 'report'}", "-q", "-p", "no:cacheprovider", *options.option],
            cwd=folder, stdout=subprocess.PIPE, text=True,
        )
        seconds = time.monotonic() - start
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        report = json.loads((folder / "report" / "report.json").read_text())
    print(done.stdout.splitlines()[-1])
    print(f"{options.ir}: {seconds:.0f} s, {usage.ru_utime + usage.ru_stime:.0f} s of CPU")
    failures = {failure["id"]: failure for failure in report["failures"]}
    for cause in report["causes"]:
        first = failures[cause["failures"][0]]
        of = ", ".join(first["operators"])
        print(f"  {cause['tests']:4} tests: {of}: {first['check']}, {first['outcome']}")


if __name__ == "__main__":
    main()
