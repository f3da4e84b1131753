"""Runs NNSmith's own fuzzing loop on TVM, measured like our suite in benchmarks/throughput.py.

    python benchmarks/nnsmith_loop.py OPERATORS CPU_SECONDS SEED

NNSmith's interpreter runs this script; benchmarks/others.py lists the packages it needs. It prints
a line of JSON: the number of graphs (generated and compared with the oracle), the CPU seconds, the
number of flagged graphs, and the number of failed attempts to generate one. Work that is done once
(imports, the search for operators that its backend has) does not count.
"""

from __future__ import annotations

import json
import os
import platform
import random
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.update(TVM_NUM_THREADS="1", OMP_NUM_THREADS="1")

#: Limit of the address space in bytes, since NNSmith may request more memory than machines have.
LIMIT = 8 << 30


def make_loop(operators: int, root: str) -> Any:
    """Returns NNSmith's loop as `nnsmith.fuzz` sets it up: ONNX models, TVM's graph executor, the
    default comparison."""
    import hydra
    import nnsmith
    import tvm
    from nnsmith.backends.tvm import TVMFactory
    from nnsmith.cli.fuzz import FuzzingLoop

    class Factory(TVMFactory):  # type: ignore[misc]
        """A factory that sets this machine's target, since this TVM has another default."""

        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            self.tvm_target = tvm.target.Target(f"llvm -mtriple={platform.machine()}-linux-gnu")

    folder = Path(nnsmith.__file__).parent / "config"
    with hydra.initialize_config_dir(str(folder), version_base=None):
        config = hydra.compose(
            "main",
            [
                "model.type=onnx", "backend.type=tvm", f"mgen.max_nodes={operators}",
                f"fuzz.root={root}/found", "fuzz.time=1h", "fuzz.seed=1",
            ],
        )
    with patch("nnsmith.backends.tvm.TVMFactory", Factory):
        return FuzzingLoop(config)


def measure(operators: int, seconds: float, seed: int) -> dict[str, Any]:
    """Generates and compares graphs of up to `operators` operators for that number of CPU seconds,
    and returns the figures."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="nnsmith-") as root:
        loop = make_loop(operators, root)
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
        graphs = flagged = unmade = 0
        start = time.process_time()
        while time.process_time() - start < seconds:
            try:
                case = loop.make_testcase(draw.getrandbits(32))
            except Exception:
                unmade += 1
                continue
            graphs += 1
            flagged += not loop.validate_and_report(case)
        cpu = time.process_time() - start
    return {"operators": operators, "graphs": graphs, "cpu": cpu, "flagged": flagged, "unmade": unmade}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(measure(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))))
